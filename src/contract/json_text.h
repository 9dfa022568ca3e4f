// Parsing JSON that nobody vouches for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/result.h"

namespace eadem::contract {

// Any value; fields keep their order. Errors: no valid JSON, a key twice in one object, nesting deeper than 64, an
// object of more than 4096 fields.
Result<nlohmann::ordered_json> parse_json(std::string_view text);

}  // namespace eadem::contract
