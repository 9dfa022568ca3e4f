// Where two traces part: the first row, layer and op with another result.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/result.h"

namespace eadem::audit {

// The first row, layer and op at which two trace files (api/trace_writer.h) part: the first answer in the order of
// `was`, of it the lowest position, of that the first op as `was` ran them. Lines may stand in another order, as they
// do where batches are cut otherwise. null where all is equal, else {"answer", "position", "layer", "op", "was", "is",
// "lines_compared"}: digests of the op's result, "none" where one trace lacks the line. A position computed anew (after
// preemption) must repeat its digests; where it does not, "was" and "is" are of one file, which "within" names. Errors:
// a file that cannot be read or is no trace.
Result<nlohmann::ordered_json> first_trace_difference(const std::string& was, const std::string& is);

}  // namespace eadem::audit
