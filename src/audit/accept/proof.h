// What a cell must show besides equal answers: conditions over what was counted while it ran. Where one does not hold,
// the path that the cell is about was not taken, and equal answers mean nothing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit::accept {

// What was counted, by name: the counters of engines (after less before; max_rows and max_sequences as they stand) and
// what the cell's own way of running counts.
using Facts = std::map<std::string, int64_t>;

// "preemptions >= 2 * requests": a name, one of >= <= == > < !=, and a term: a number, a name, or a product of the two.
struct Condition {
  std::string text;  // as it was written
  std::string name, comparison;
  std::vector<std::string> factors;  // one or two: numbers and names

  // Errors: the form; a name that is no counter, no fact of a way and not `value` (on the right).
  static Result<Condition> parse(std::string_view text);
  // {"condition", "counted", "wanted", "held"}. `value`: that of the run; where it is no number, `value` counts as 0.
  // A fact that was never counted is 0.
  nlohmann::ordered_json check(const Facts& facts, const std::string& value) const;
};

// Adds after less before.
void count(Facts& facts, const Counters& before, const Counters& after);

// Names that a condition may use.
const std::map<std::string, std::string>& known_facts();  // name -> what it counts

}  // namespace eadem::audit::accept
