// How cells are carried out: each way takes one value of its cell, runs the corpus' requests as it says, holds the
// answers against those that each request got alone, and counts what proves that its path was taken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace eadem::audit::accept {

class Trial;

struct Way {
  const char* name;
  const char* help;    // a line for docs and errors
  const char* values;  // what a value may be; empty: whatever the cell's option takes
  bool (*is_value)(std::string_view value);
  // Errors: the cell could not be carried out.
  Result<void> (*run)(Trial& trial);
};

const std::vector<Way>& all_ways();
// Null where there is none.
const Way* find_way(std::string_view name);

// The ways of the two controls: their cells pass where others fail. The runner carries them out.
inline constexpr std::string_view kFreeControl = "free", kNumericsControl = "other_numerics";

}  // namespace eadem::audit::accept
