#include "audit/accept/proof.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "api/counter_names.h"

namespace eadem::audit::accept {
namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool compare(int64_t counted, std::string_view comparison, int64_t wanted) {
  if (comparison == ">=") return counted >= wanted;
  if (comparison == "<=") return counted <= wanted;
  if (comparison == "==") return counted == wanted;
  if (comparison == "!=") return counted != wanted;
  if (comparison == ">") return counted > wanted;
  return counted < wanted;
}

}  // namespace

const std::map<std::string, std::string>& known_facts() {
  static const std::map<std::string, std::string> names = [] {
    std::map<std::string, std::string> all = {
        {"requests", "requests of the corpus that took part"},
        {"compared", "answers held against their baselines"},
        {"different", "answers that were not equal"},
        {"engines", "engines opened"},
        {"neighbours", "requests that ran beside those of the corpus"},
        {"left_early", "neighbours that ended before they had all the tokens asked for"},
        {"moved", "requests that were asked at another place than in the corpus' order"},
        {"streamed_tokens", "tokens handed out one by one"},
        {"drawn_tokens", "tokens of the answers"},
        {"answers", "answers to requests that asked for several"},
        {"scored_tokens", "tokens whose logprobs were computed from given text"},
        {"forced_tokens", "tokens of answers that were given, not drawn"},
        {"stopped", "answers that ended at a stop string"},
        {"guided", "requests with a guide"},
        {"embeddings", "embeddings"},
        {"clients", "threads that asked at the same time"},
        {"most_running", "sequences that a service was seen to run at once"},
        {"processes", "processes started, none of them this one"},
        {"http_replies", "replies over HTTP"},
        {"http_events", "events of streamed replies"},
        {"trace_lines", "lines of the trace"},
        {"threads", "workers of the engine"},
        {"is_kernel_set", "1 where the engine says that it runs the kernel set asked for"},
        {"cached_requests", "requests that found a part of their prompt in the cache"},
        {"cells_that_saw", "cells that found a difference"},
        {"cells_asked", "cells that should have found one"},
    };
    for (const api::NamedCounter& counter : api::kCounters) all.emplace(counter.name, "a counter of the engine");
    return all;
  }();
  return names;
}

void count(Facts& facts, const Counters& before, const Counters& after) {
  for (const api::NamedCounter& counter : api::kCounters) {
    const auto now = static_cast<int64_t>(after.*counter.field);
    int64_t& fact = facts[counter.name];
    if (counter.is_maximum) {
      fact = std::max(fact, now);
    } else {
      fact += now - static_cast<int64_t>(before.*counter.field);
    }
  }
}

Result<Condition> Condition::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  const Error form{"'" + std::string(text) + "' is no condition: write NAME COMPARISON TERM with blanks between, as " +
                   "\"preemptions >= 1\", \"max_sequences == value\" or \"preemptions >= 2 * requests\""};
  if (words.size() != 3 && !(words.size() == 5 && words[3] == "*")) return form;
  constexpr std::string_view kComparisons[] = {">=", "<=", "==", "!=", ">", "<"};
  if (std::find(std::begin(kComparisons), std::end(kComparisons), words[1]) == std::end(kComparisons)) return form;
  Condition condition{std::string(text), words[0], words[1], {words[2]}};
  if (words.size() == 5) condition.factors.push_back(words[4]);
  std::string unknown = known_facts().contains(condition.name) ? "" : condition.name;
  for (const std::string& factor : condition.factors) {
    if (!number(factor) && factor != "value" && !known_facts().contains(factor)) unknown = factor;
  }
  if (unknown.empty()) return condition;
  std::string known;
  for (const auto& [one, _] : known_facts()) known += (known.empty() ? "" : ", ") + one;
  return Error{"'" + unknown + "' in '" + std::string(text) + "' is nothing that is counted: use one of " + known};
}

nlohmann::ordered_json Condition::check(const Facts& facts, const std::string& value) const {
  const auto fact = [&](const std::string& of) -> int64_t {
    if (of == "value") return number(value).value_or(0);
    if (const auto literal = number(of)) return *literal;
    const auto found = facts.find(of);
    return found == facts.end() ? 0 : found->second;
  };
  const int64_t counted = fact(name);
  int64_t wanted = 1;
  for (const std::string& factor : factors) wanted *= fact(factor);
  return {
      {"condition", text}, {"counted", counted}, {"wanted", wanted}, {"held", compare(counted, comparison, wanted)}};
}

}  // namespace eadem::audit::accept
