// The machine that the program runs on.
#pragma once

#include <nlohmann/json.hpp>

namespace eadem::cli {

// {"cpu", "cores", "features": [...], "memory_bytes", "system"}
nlohmann::ordered_json describe_machine();

}  // namespace eadem::cli
