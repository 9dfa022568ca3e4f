// JSON text as Metadata: config.json, generation_config.json.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "weights/metadata.h"

namespace eadem::weights {

// The text must be one object. Nested objects are joined by dots; an array of one scalar type stays an array, one of
// integers and floats becomes floats, any other is flattened by index ("a.0.b"). Nulls count as absent. Errors name
// `file`: not JSON, a key twice (after flattening too), nesting deeper than 64.
Result<Metadata> read_json_metadata(std::string_view text, const std::string& file);

}  // namespace eadem::weights
