#include "audit/diff.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/request_json.h"
#include "audit/answers.h"
#include "audit/identity_report.h"
#include "audit/quality.h"
#include "audit/trace_difference.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;
using statistics::Verdict;

constexpr size_t kDifferencesTold = 20;

struct Pair {
  const Answer *a, *b;
};

// Answers of both files that were asked the same.
struct Matching {
  std::string by;
  std::vector<Pair> pairs;
  int64_t only_a = 0, only_b = 0;
  // All answers to a request, but for the seed.
  struct Group {
    std::string name;
    std::vector<const Answer*> a, b;
  };
  std::vector<Group> groups;
};

bool all_have(const AnswerFile& file, const std::function<bool(const Answer&)>& has) {
  for (const Answer& answer : file.answers) {
    if (!has(answer)) return false;
  }
  return true;
}

Result<Matching> match(const AnswerFile& a, const AnswerFile& b) {
  const auto both = [&](auto&& has) { return all_have(a, has) && all_have(b, has); };
  const bool by_request = both([](const Answer& answer) { return !answer.request.empty(); });
  if (!by_request && !both([](const Answer& answer) { return !answer.id.empty(); }))
    return Error{"answers cannot be matched: all need a prompt (prompt_token_ids), or all an id"};
  const bool by_seed = both([](const Answer& answer) { return answer.seed.has_value(); });
  Matching matching;
  matching.by = std::string(by_request ? "prompt and sampling" : "id") + (by_seed ? ", and seed" : ", and order");
  std::map<std::string, size_t> numbers;
  for (const bool is_a : {true, false}) {
    for (const Answer& answer : (is_a ? a : b).answers) {
      const std::string& key = by_request ? answer.request : answer.id;
      const auto [found, fresh] = numbers.try_emplace(key, matching.groups.size());
      if (fresh) matching.groups.push_back({answer.name, {}, {}});
      Matching::Group& group = matching.groups[found->second];
      (is_a ? group.a : group.b).push_back(&answer);
    }
  }
  for (const Matching::Group& group : matching.groups) {
    // Equal seeds in the order of the files; without seeds, equal places.
    std::map<uint64_t, std::vector<const Answer*>> waiting;
    for (const Answer* answer : group.a) waiting[by_seed ? *answer->seed : 0].push_back(answer);
    std::map<uint64_t, size_t> taken;
    size_t pairs = 0;
    for (const Answer* answer : group.b) {
      const uint64_t seed = by_seed ? *answer->seed : 0;
      const auto found = waiting.find(seed);
      size_t& next = taken[seed];
      if (found == waiting.end() || next >= found->second.size()) continue;
      matching.pairs.push_back({found->second[next++], answer});
      ++pairs;
    }
    matching.only_a += static_cast<int64_t>(group.a.size() - pairs);
    matching.only_b += static_cast<int64_t>(group.b.size() - pairs);
  }
  return matching;
}

ordered_json level_of(Level level, Verdict verdict, const std::string& statement) {
  return {{"level", name_of(level)}, {"verdict", statistics::name_of(verdict)}, {"statement", statement}};
}

std::string of(size_t part, size_t all) { return std::to_string(part) + " of " + std::to_string(all); }

// Only what both tell can differ.
std::pair<ordered_json, ordered_json> told_by_both(const Answer& a, const Answer& b) {
  ordered_json left = ordered_json::object(), right = ordered_json::object();
  for (const auto& [field, value] : a.fields.items()) {
    if (!b.fields.contains(field)) continue;
    left[field] = value;
    right[field] = b.fields[field];
  }
  return {left, right};
}

// Bits, or tokens.
ordered_json compare_exactly(const Matching& matching, Level level) {
  size_t different = 0, silent = 0;
  ordered_json differences = ordered_json::array();
  for (const Pair& pair : matching.pairs) {
    const auto [a, b] = told_by_both(*pair.a, *pair.b);
    const bool told = level == Level::kBits ? a.contains("token_ids") && a.contains("logprobs")
                                            : a.contains("token_ids") || a.contains("text");
    silent += !told;
    const ordered_json difference = first_difference(a, b, level);
    if (difference.is_null()) continue;
    ++different;
    if (differences.size() >= kDifferencesTold) continue;
    ordered_json entry = {{"id", pair.a->name}};
    if (pair.a->seed && pair.a->seed == pair.b->seed) entry["seed"] = *pair.a->seed;
    entry.update(difference);
    entry["words"] = describe_difference(difference);
    differences.push_back(entry);
  }
  const size_t pairs = matching.pairs.size();
  Verdict verdict = Verdict::kUndecided;
  std::string statement;
  if (different > 0) {
    verdict = Verdict::kDiffers;
    statement = of(different, pairs) + " answers differ";
  } else if (pairs == 0) {
    statement = "undecided: no answers to the same request and seed";
  } else if (silent > 0) {
    statement = "undecided: " + of(silent, pairs) + " answers tell no " +
                (level == Level::kBits ? "logprobs: make them with --logprobs 0 or more" : "tokens and no text");
  } else if (matching.only_a + matching.only_b > 0) {
    statement = "undecided: all " + std::to_string(pairs) + " pairs are equal, but " +
                std::to_string(matching.only_a + matching.only_b) + " answers have no partner";
  } else {
    verdict = Verdict::kHolds;
    statement = "all " + std::to_string(pairs) + " answers are equal" +
                (level == Level::kBits ? ", every told number bit for bit" : " in tokens, text and finish reason");
  }
  ordered_json result = level_of(level, verdict, statement);
  result["compared"] = pairs;
  result["different"] = different;
  result["first_difference"] = differences.empty() ? ordered_json() : differences[0];
  result["differences"] = differences;
  return result;
}

// Tokens as categories: ids as they are, texts by a hash, a whole text as its bytes.
std::vector<int32_t> tokens_of(const Answer& answer) {
  std::vector<int32_t> tokens;
  if (answer.fields.contains("token_ids") && answer.fields["token_ids"].is_array()) {
    for (const ordered_json& token : answer.fields["token_ids"]) {
      tokens.push_back(
          token.is_number_integer()
              ? token.get<int32_t>()
              : static_cast<int32_t>(
                    std::hash<std::string>{}(token.is_string() ? token.get<std::string>() : std::string()) >> 33));
    }
  } else if (answer.fields.contains("text") && answer.fields["text"].is_string()) {
    for (const char c : answer.fields["text"].get<std::string>()) tokens.push_back(static_cast<unsigned char>(c));
  }
  return tokens;
}

Sample sample_of(const Answer& answer, size_t place, bool by_seed) {
  Sample sample;
  sample.seed = by_seed ? *answer.seed : place;
  sample.tokens = tokens_of(answer);
  if (!answer.fields.contains("logprobs") || !answer.fields["logprobs"].is_array()) return sample;
  for (const ordered_json& value : answer.fields["logprobs"])
    sample.logprobs.push_back(value.is_number() ? static_cast<float>(value.get<double>()) : NAN);
  return sample;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json to_json(const DistributionTest& test) {
  return {{"name", test.name},
          {"title", test.title},
          {"statement", test.statement},
          {"unit", test.unit},
          {"sample", test.sample},
          {"estimate", test.estimate.value},
          {"low", test.estimate.low},
          {"high", test.estimate.high},
          {"confidence", test.estimate.confidence},
          {"margin", test.margin},
          {"p", or_null(test.p)},
          {"p_adjusted", or_null(test.p_adjusted)},
          {"verdict", statistics::name_of(test.verdict)},
          {"detectable", or_null(test.detectable)},
          {"needs", or_null(test.needs)},
          {"needs_what", test.needs ? ordered_json(test.needs_what) : ordered_json()}};
}

ordered_json compare_distribution_level(const Matching& matching, const DistributionMargins& margins) {
  std::vector<PromptSamples> prompts;
  for (const Matching::Group& group : matching.groups) {
    PromptSamples samples;
    samples.name = group.name;
    const bool by_seed = matching.by.ends_with("seed");
    for (const Answer* answer : group.a) samples.a.push_back(sample_of(*answer, samples.a.size(), by_seed));
    for (const Answer* answer : group.b) samples.b.push_back(sample_of(*answer, samples.b.size(), by_seed));
    if (!samples.a.empty() && !samples.b.empty()) prompts.push_back(std::move(samples));
  }
  if (prompts.empty()) return level_of(Level::kDistribution, Verdict::kUndecided, "undecided: no request is in both");
  const DistributionResult found = compare_distributions(prompts, margins);
  ordered_json result = level_of(Level::kDistribution, found.verdict, found.statement);
  result["tests"] = ordered_json::array();
  for (const DistributionTest& test : found.tests) result["tests"].push_back(to_json(test));
  result["prompts"] = ordered_json::array();
  for (const PromptDistance& prompt : found.prompts) {
    result["prompts"].push_back({{"id", prompt.name},
                                 {"distance", std::sqrt(std::max(0.0, prompt.squared_distance))},
                                 {"p", prompt.p},
                                 {"q", prompt.q}});
  }
  return result;
}

// Means over the answers to each item, for both sides of those items that both have.
std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> metrics_of(const Matching& matching) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> metrics;
  for (const Matching::Group& group : matching.groups) {
    std::map<std::string, std::pair<double, double>> a, b;  // sum and number
    for (const auto& [answers, sums] : {std::pair{&group.a, &a}, std::pair{&group.b, &b}}) {
      for (const Answer* answer : *answers) {
        for (const auto& [name, value] : answer->metrics) {
          (*sums)[name].first += value;
          (*sums)[name].second += 1.0;
        }
      }
    }
    for (const auto& [name, sum] : a) {
      const auto other = b.find(name);
      if (other == b.end()) continue;
      metrics[name].first.push_back(sum.first / sum.second);
      metrics[name].second.push_back(other->second.first / other->second.second);
    }
  }
  return metrics;
}

ordered_json to_json(const MetricResult& metric) {
  return {{"metric", metric.metric},
          {"kind", metric.proportion ? "proportion" : "mean"},
          {"items", metric.items},
          {"a", metric.a},
          {"b", metric.b},
          {"difference", metric.difference.value},
          {"low", metric.difference.low},
          {"high", metric.difference.high},
          {"confidence", metric.difference.confidence},
          {"method", metric.method},
          {"p", metric.p},
          {"p_adjusted", metric.p_adjusted},
          {"margin", metric.margin},
          {"verdict", statistics::name_of(metric.verdict)},
          {"detectable", metric.detectable},
          {"needs", or_null(metric.needs)}};
}

ordered_json compare_quality_level(const Matching& matching, const DiffOptions& options) {
  std::vector<MetricResult> results;
  for (const auto& [name, values] : metrics_of(matching))
    results.push_back(compare_metric(name, values.first, values.second, options.quality_margin, options.margins.seed));
  adjust_metrics(results);
  std::string differing, needs;
  bool all_hold = !results.empty();
  for (const MetricResult& metric : results) {
    all_hold &= metric.verdict == Verdict::kHolds;
    if (metric.verdict == Verdict::kDiffers) differing += (differing.empty() ? "" : ", ") + metric.metric;
    if (metric.needs)
      needs += (needs.empty() ? "" : ", ") + metric.metric + " needs " + std::to_string(*metric.needs) + " items";
  }
  const Verdict verdict = !differing.empty() ? Verdict::kDiffers : all_hold ? Verdict::kHolds : Verdict::kUndecided;
  ordered_json result = level_of(Level::kQuality, verdict,
                                 results.empty()      ? "undecided: no metric in both (see --metric)"
                                 : !differing.empty() ? "the means differ: " + differing
                                 : all_hold           ? "the means are the same within the margin, at 95 % confidence"
                                                      : "undecided: " + needs);
  result["metrics"] = ordered_json::array();
  for (const MetricResult& metric : results) result["metrics"].push_back(to_json(metric));
  return result;
}

// What a stronger level says of these answers, it says of them at this one too.
ordered_json implied(Level level, Level by) {
  ordered_json result =
      level_of(level, Verdict::kHolds, "follows for these answers: they are equal in " + std::string(name_of(by)));
  result["implied_by"] = name_of(by);
  return result;
}

ordered_json compare_levels(const Matching& matching, const DiffOptions& options) {
  ordered_json levels = ordered_json::array();
  std::optional<Level> holds;
  for (const Level level : {Level::kBits, Level::kTokens}) {
    levels.push_back(holds ? implied(level, *holds) : compare_exactly(matching, level));
    if (!holds && levels.back()["verdict"] == "holds") holds = level;
  }
  levels.push_back(holds ? implied(Level::kDistribution, *holds)
                         : compare_distribution_level(matching, options.margins));
  ordered_json quality = compare_quality_level(matching, options);
  if (holds && quality["metrics"].empty()) quality = implied(Level::kQuality, *holds);
  levels.push_back(quality);
  return levels;
}

ordered_json describe(const AnswerFile& file, const Matching& matching, bool is_a) {
  size_t prompts = 0;
  for (const Matching::Group& group : matching.groups) prompts += !(is_a ? group.a : group.b).empty();
  return {{"path", file.path},
          {"format", "answers"},
          {"answers", file.answers.size()},
          {"prompts", prompts},
          {"fingerprints", file.fingerprints},
          {"numerics", file.numerics}};
}

void conclude(ordered_json& document, Level asked) {
  document["strongest_level"] = nullptr;
  std::string first;
  for (const ordered_json& level : document["levels"]) {
    if (document["strongest_level"].is_null() && level["verdict"] == "holds")
      document["strongest_level"] = level["level"];
    if (level["level"] == name_of(asked)) document["verdict"] = level["verdict"];
    const ordered_json difference = level.value("first_difference", ordered_json());
    if (first.empty() && !difference.is_null() && difference.contains("words"))
      first = "; " + std::string(level["level"]) + " differ first at " + std::string(difference["id"]) + ", " +
              std::string(difference["words"]);
  }
  const ordered_json& strongest = document["strongest_level"];
  document["summary"] = (strongest.is_null() ? "No level is shown to hold"
                                             : "The strongest level that holds is " + std::string(strongest)) +
                        first + ".";
}

// What of a document does not depend on its format.
ordered_json frame(const DiffOptions& options, ordered_json a, ordered_json b) {
  return {{"kind", "diff"},
          {"schema", 1},
          {"verdict", "undecided"},
          {"strongest_level", nullptr},
          {"asked_level", name_of(options.level)},
          {"summary", ""},
          {"a", std::move(a)},
          {"b", std::move(b)}};
}

bool is_trace(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return false;
  const auto parsed = api::parse_line(line);
  return parsed.ok() && parsed.value().is_object() && parsed.value().contains("sha256") &&
         parsed.value().contains("op");
}

Result<ordered_json> compare_traces(const DiffOptions& options) {
  if (options.level != Level::kBits) return Error{"traces are compared at the level bits alone"};
  EADEM_ASSIGN_OR_RETURN(const ordered_json found, first_trace_difference(options.a, options.b));
  ordered_json document =
      frame(options, {{"path", options.a}, {"format", "trace"}}, {{"path", options.b}, {"format", "trace"}});
  ordered_json level = level_of(Level::kBits, found.is_null() ? Verdict::kHolds : Verdict::kDiffers,
                                found.is_null() ? "every row, layer and op has the same digest" : "the traces part");
  if (!found.is_null()) {
    const std::string op = "layer " + found["layer"].dump() + " " + std::string(found["op"]);
    level["first_difference"] = {{"id", found["answer"]},
                                 {"field", op},
                                 {"position", found["position"]},
                                 {"was", {{"value", found["was"]}}},
                                 {"is", {{"value", found["is"]}}},
                                 {"words", "position " + found["position"].dump() + ", " + op + ": was " +
                                               std::string(found["was"]) + ", is " + std::string(found["is"])}};
    if (found.contains("within")) level["first_difference"]["within"] = found["within"];
  }
  document["levels"] = ordered_json::array({level});
  conclude(document, options.level);
  EADEM_ASSIGN_OR_RETURN(document["identity"],
                         identity_report({options.about_a, {}, {}}, {options.about_b, {}, {}}, !found.is_null()));
  return document;
}

}  // namespace

Result<ordered_json> compare_runs(const DiffOptions& options) {
  const bool a_is_trace = is_trace(options.a), b_is_trace = is_trace(options.b);
  if (a_is_trace != b_is_trace) return Error{"a trace can be compared with a trace alone"};
  if (a_is_trace) return compare_traces(options);
  EADEM_ASSIGN_OR_RETURN(const AnswerFile a, read_answers(options.a, options.metrics));
  EADEM_ASSIGN_OR_RETURN(const AnswerFile b, read_answers(options.b, options.metrics));
  EADEM_ASSIGN_OR_RETURN(const Matching matching, match(a, b));
  ordered_json document = frame(options, describe(a, matching, true), describe(b, matching, false));
  document["matching"] = {{"by", matching.by},         {"pairs", matching.pairs.size()}, {"only_a", matching.only_a},
                          {"only_b", matching.only_b}, {"skipped_a", a.skipped},         {"skipped_b", b.skipped}};
  document["levels"] = compare_levels(matching, options);
  conclude(document, options.level);
  EADEM_ASSIGN_OR_RETURN(document["identity"], identity_report({options.about_a, a.fingerprints, a.numerics},
                                                               {options.about_b, b.fingerprints, b.numerics},
                                                               document["levels"][0]["verdict"] == "differs"));
  return document;
}

}  // namespace eadem::audit
