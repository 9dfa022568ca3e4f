// Parsing untrusted JSON into nlohmann::json. Private to this folder: no public header includes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::weights {

// One JSON object. Errors name `file`: not JSON, not an object, a key twice in one object, nesting deeper than 64.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& file);

}  // namespace eadem::weights
