#include "audit/cost_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "audit/cost.h"
#include "audit/statistics/paired.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr int kBlockPositions = 64;  // of a KV block
constexpr double kBusy = 0.1;        // share of CPU time for others that is worth a warning
constexpr const char* kConversion[] = {"time increase = time of a / time of b - 1",
                                       "throughput ratio = 1 / (1 + time increase)"};

struct Kind {
  const char *name, *title, *unit;
  bool rate;
  double Speeds::* value;
};
constexpr Kind kKinds[] = {{"ttft", "time to first token", "s", false, &Speeds::first_token},
                           {"prefill", "prefill throughput", "tokens/s", true, &Speeds::prefill},
                           {"decode", "decode throughput", "tokens/s", true, &Speeds::decode},
                           {"itl_p50", "time between tokens, median", "s", false, &Speeds::between_p50},
                           {"itl_p99", "time between tokens, 99th percentile", "s", false, &Speeds::between_p99}};

// Both engines and what their runs gave.
class Measurement {
 public:
  Measurement(const CostOptions& options, const CostWatch& watch) : options_(options), watch_(watch) {}

  Result<void> open();
  Result<void> run();
  ordered_json document(const ordered_json& machine) const;

 private:
  struct Side {
    std::unique_ptr<Engine> engine;
    MemoryUse memory;
    std::vector<Speeds> speeds;
    std::set<std::vector<std::vector<int32_t>>> answers;  // distinct ones of all runs
  };

  Result<Engine> open_engine(const char* mode) const;
  Result<void> choose_kernels();
  Result<void> check_alike() const;
  Result<void> run_side(Side& side, bool counts);
  ordered_json conditions() const;
  ordered_json about(const Side& side, const char* label) const;
  ordered_json evidence() const;
  std::vector<std::string> warnings() const;
  std::vector<PairedRuns> runs() const;

  CostOptions options_;
  const CostWatch& watch_;
  Side a_, b_;
  std::vector<bool> order_;
  int done_ = 0;
  double load_before_ = -1.0, others_ = 0.0;
};

EngineOptions in_mode(EngineOptions options, const char* mode) {
  options.mode = mode;
  options.prefix_cache = false;  // runs would find their prompts there
  return options;
}

Result<Engine> Measurement::open_engine(const char* mode) const { return Engine::open(in_mode(options_.engine, mode)); }

// The contract's name of a kernel set or numerics, whichever mode names it.
std::string plain_name(std::string name) {
  for (const char* ending : {"-free", "-v1"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  }
  return name;
}

ordered_json parts_without_numerics(const Engine& engine) {
  ordered_json parts = ordered_json::parse(engine.identity_parts());
  parts.erase("numerics");
  return parts;
}

// The two may differ in nothing but the order of their sums.
Result<void> Measurement::check_alike() const {
  const ModelInfo &a = a_.engine->info(), &b = b_.engine->info();
  const auto unlike = [](const std::string& what, const std::string& left, const std::string& right) {
    return Error{"unlike runs: " + what + " " + left + " and " + right};
  };
  if (plain_name(a.numerics) != plain_name(b.numerics)) return unlike("numerics", a.numerics, b.numerics);
  if (plain_name(a.isa) != plain_name(b.isa)) return unlike("kernel sets", a.isa, b.isa + " (leave --isa to auto)");
  if (a.threads != b.threads) return unlike("threads", std::to_string(a.threads), std::to_string(b.threads));
  if (parts_without_numerics(*a_.engine) != parts_without_numerics(*b_.engine))
    return unlike("models", a_.engine->identity(), b_.engine->identity());
  return {};
}

// "auto" is the set that free order has a twin of, not the machine's best: that would compare instructions as well. A
// device brings its own, and may not be opened yet: a process that did has no children that can.
Result<void> Measurement::choose_kernels() {
  if (options_.engine.isa != "auto" || options_.engine.device != "cpu") return {};
  EADEM_ASSIGN_OR_RETURN(const Engine free, open_engine("free"));
  options_.engine.isa = plain_name(free.info().isa);
  return {};
}

Result<void> Measurement::open() {
  load_before_ = LoadWatch::load_average();
  EADEM_RETURN_IF_ERROR(choose_kernels());
  for (const auto& [side, mode] : {std::pair{&a_, "contract"}, std::pair{&b_, "free"}}) {
    EADEM_ASSIGN_OR_RETURN(side->memory, memory_of(in_mode(options_.engine, mode), options_.workload));
    if (!watch_.goes_on()) return Error{"interrupted"};
  }
  EADEM_ASSIGN_OR_RETURN(Engine contract, open_engine("contract"));
  a_.engine = std::make_unique<Engine>(std::move(contract));
  EADEM_ASSIGN_OR_RETURN(Engine free, open_engine("free"));
  b_.engine = std::make_unique<Engine>(std::move(free));
  return check_alike();
}

Result<void> Measurement::run_side(Side& side, bool counts) {
  EADEM_ASSIGN_OR_RETURN(RunTimes times, time_run(*side.engine, options_.workload, watch_.goes_on));
  if (!counts) return {};
  side.speeds.push_back(speeds_of(times, options_.workload));
  side.answers.insert(std::move(times.tokens));
  watch_.progress(++done_, 2 * options_.pairs);
  return {};
}

Result<void> Measurement::run() {
  EADEM_RETURN_IF_ERROR(run_side(a_, false));
  EADEM_RETURN_IF_ERROR(run_side(b_, false));
  order_ = block_order(options_.pairs / 2, options_.seed);
  const LoadWatch load;
  for (const bool abba : order_) {
    for (const bool is_a : {abba, !abba, !abba, abba}) EADEM_RETURN_IF_ERROR(run_side(is_a ? a_ : b_, true));
  }
  others_ = load.others();
  return {};
}

std::vector<PairedRuns> Measurement::runs() const {
  std::vector<PairedRuns> all;
  for (const Kind& kind : kKinds) {
    PairedRuns runs{kind.name, kind.title, kind.unit, kind.rate, {}, {}};
    for (const Speeds& speeds : a_.speeds) runs.a.push_back(speeds.*kind.value);
    for (const Speeds& speeds : b_.speeds) runs.b.push_back(speeds.*kind.value);
    all.push_back(std::move(runs));
  }
  return all;
}

ordered_json Measurement::conditions() const {
  const ModelInfo& info = a_.engine->info();
  const EngineOptions& engine = options_.engine;
  return {{"model", info.path},
          {"identity_but_numerics", parts_without_numerics(*a_.engine)},
          {"isa", plain_name(info.isa)},
          {"threads", info.threads},
          {"device", engine.device},
          {"prompt_tokens", options_.workload.prompt_tokens},
          {"max_tokens", options_.workload.max_tokens},
          {"batch", options_.workload.batch},
          {"max_batch", engine.max_batch},
          {"prefill_chunk", engine.prefill_chunk},
          {"mixed_chunk", engine.mixed_chunk},
          {"async_scheduling", engine.async_scheduling},
          {"prefix_cache", false},
          {"speculation", engine.speculation}};
}

ordered_json Measurement::about(const Side& side, const char* label) const {
  const ModelInfo& info = side.engine->info();
  return {{"label", label}, {"mode", info.mode}, {"numerics", info.numerics}, {"fingerprint", side.engine->identity()}};
}

ordered_json Measurement::evidence() const {
  return {{"runs_a", a_.speeds.size()},
          {"runs_b", b_.speeds.size()},
          {"kernel_calls_a", a_.engine->counters().kernel_calls},
          {"kernel_calls_b", b_.engine->counters().kernel_calls},
          {"runs_a_equal", a_.answers.size() == 1},
          {"distinct_outputs_a", a_.answers.size()},
          {"distinct_outputs_b", b_.answers.size()},
          {"outputs_of_b_equal_to_a", b_.answers.contains(*a_.answers.begin())},
          {"load_average_before", load_before_},
          {"cpu_share_of_others", others_}};
}

std::vector<std::string> Measurement::warnings() const {
  std::vector<std::string> all;
  char text[160];
  if (others_ > kBusy) {
    std::snprintf(text, sizeof(text), "the machine was shared: other work took %.0f %% of its CPU time during the runs",
                  100 * others_);
    all.emplace_back(text);
  }
  if (a_.answers.size() != 1)
    all.emplace_back("runs under the contract gave different answers: this is a bug, and the comparison means little");
  return all;
}

std::string percent(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, 100 * value);
  return text;
}

// "decode +8.1 % (+6.9 to +9.4 %), slower; ..."
std::string summary_of(const ordered_json& document) {
  std::string text;
  for (const ordered_json& metric : document["metrics"]) {
    const ordered_json& increase = metric["time_increase"];
    text += (text.empty() ? "" : "; ") + metric["name"].get<std::string>() + " " +
            percent(increase["estimate"].get<double>(), "%+.1f %%") + " (" +
            percent(increase["low"].get<double>(), "%+.1f") + " to " +
            percent(increase["high"].get<double>(), "%+.1f %%") + "), " + metric["verdict"].get<std::string>();
    if (metric["needs_pairs"].is_number()) text += ", needs " + metric["needs_pairs"].dump() + " pairs";
  }
  return "Time of " + document["a"]["label"].get<std::string>() + " beside " +
         document["b"]["label"].get<std::string>() + ": " + text + ".";
}

ordered_json capacity_of(const MemoryUse& memory, int64_t blocks_each) {
  return {{"kv_blocks", memory.kv_blocks}, {"sequences", memory.kv_blocks / blocks_each}};
}

ordered_json to_json(const MemoryUse& memory) {
  return {{"peak_resident_bytes", memory.peak_resident},
          {"weight_bytes", memory.weight_bytes},
          {"kv_bytes", memory.kv_bytes}};
}

ordered_json Measurement::document(const ordered_json& machine) const {
  const std::vector<CostMetric> metrics = compare_costs(runs(), options_.margin);
  ordered_json order = ordered_json::array();
  for (const bool abba : order_) order.push_back(abba ? "ABBA" : "BAAB");
  ordered_json document = {{"kind", "cost"},
                           {"schema", 1},
                           {"verdict", overall_verdict(metrics)},
                           {"summary", ""},
                           {"a", about(a_, "contract")},
                           {"b", about(b_, "free")},
                           {"machine", machine},
                           {"conditions", conditions()},
                           {"design",
                            {{"pairs", options_.pairs},
                             {"blocks", options_.pairs / 2},
                             {"order", order},
                             {"warm_up_runs", 2},
                             {"seed", options_.seed},
                             {"confidence", statistics::kConfidence},
                             {"margin", options_.margin}}},
                           {"conversion", kConversion}};
  document["metrics"] = ordered_json::array();
  for (const CostMetric& metric : metrics) document["metrics"].push_back(audit::to_json(metric));
  document["memory"] = {{"a", to_json(a_.memory)}, {"b", to_json(b_.memory)}};
  const int64_t length = options_.workload.prompt_tokens + options_.workload.max_tokens;
  const int64_t blocks_each = (length + kBlockPositions - 1) / kBlockPositions;
  document["capacity"] = {{"sequence_tokens", length},
                          {"a", capacity_of(a_.memory, blocks_each)},
                          {"b", capacity_of(b_.memory, blocks_each)}};
  document["evidence"] = evidence();
  document["warnings"] = warnings();
  document["summary"] = summary_of(document);
  return document;
}

// --- Two documents.

bool is_cost(const ordered_json& document) {
  if (!document.is_object() || document.value("kind", ordered_json()) != "cost") return false;
  for (const char* field : {"a", "b", "conditions", "machine", "design"}) {
    if (!document.contains(field) || !document[field].is_object()) return false;
  }
  return document.contains("metrics") && document["metrics"].is_array() && !document.contains("before");
}

void note_unlike(const ordered_json& before, const ordered_json& now, const char* part,
                 const std::vector<const char*>& fields, std::string& unlike) {
  for (const char* field : fields) {
    const ordered_json one = before[part].value(field, ordered_json()), other = now[part].value(field, ordered_json());
    if (one != other)
      unlike +=
          (unlike.empty() ? "" : "; ") + std::string(part) + "." + field + " " + one.dump() + " and " + other.dump();
  }
}

// Block means of the logarithms of a document's pair ratios; empty where it has none.
std::vector<double> blocks_of(const ordered_json& document, const char* name) {
  std::vector<double> blocks;
  for (const ordered_json& metric : document["metrics"]) {
    if (!metric.is_object() || metric.value("name", ordered_json()) != name) continue;
    const ordered_json ratios = metric.value("ratios", ordered_json());
    if (!ratios.is_array()) continue;
    for (size_t i = 0; i + 1 < ratios.size() && blocks.size() < 2000; i += 2) {
      if (!ratios[i].is_number() || !ratios[i + 1].is_number()) return {};
      const double product = ratios[i].get<double>() * ratios[i + 1].get<double>();
      if (!(product > 0.0) || !std::isfinite(product)) return {};
      blocks.push_back(0.5 * std::log(product));
    }
  }
  return blocks;
}

std::string table_row(const ordered_json& metric) {
  const auto amount = [&](const char* side) {
    if (!metric.contains(side)) return std::string("-");
    const double value = metric[side]["median"].get<double>();
    char text[64];
    if (metric["unit"] == "s") {
      std::snprintf(text, sizeof(text), "%.2f ms (%.0f %%)", 1e3 * value, 100 * metric[side]["spread"].get<double>());
    } else {
      std::snprintf(text, sizeof(text), "%.1f tok/s (%.0f %%)", value, 100 * metric[side]["spread"].get<double>());
    }
    return std::string(text);
  };
  const ordered_json& increase = metric["time_increase"];
  const ordered_json& ratio = metric["throughput_ratio"];
  char text[256];
  std::snprintf(text, sizeof(text), "%+.1f %% (%+.1f to %+.1f) | %.3f (%.3f to %.3f)",
                100 * increase["estimate"].get<double>(), 100 * increase["low"].get<double>(),
                100 * increase["high"].get<double>(), ratio["estimate"].get<double>(), ratio["low"].get<double>(),
                ratio["high"].get<double>());
  std::string verdict = metric["verdict"].get<std::string>();
  if (metric["needs_pairs"].is_number()) verdict += ": needs " + metric["needs_pairs"].dump() + " pairs";
  return "| " + metric["title"].get<std::string>() + " | " + amount("a") + " | " + amount("b") + " | " + text + " | " +
         verdict + " |\n";
}

ordered_json change_of(const ordered_json& metric, const statistics::Estimate& shift, double margin) {
  const auto bound = [&](double (*f)(double), bool negative) -> ordered_json {
    const double sign = negative ? -1.0 : 1.0, low = f(sign * shift.low), high = f(sign * shift.high);
    return {{"estimate", f(sign * shift.value)}, {"low", std::min(low, high)}, {"high", std::max(low, high)}};
  };
  const statistics::Verdict verdict = statistics::judge_signed(shift, std::log1p(margin));
  return {{"name", metric["name"]},
          {"title", metric.value("title", ordered_json(metric["name"]))},
          {"unit", metric.value("unit", ordered_json(""))},
          {"what", "ratio of ratios"},
          {"time_increase", bound([](double x) { return std::expm1(x); }, false)},
          {"throughput_ratio", bound([](double x) { return std::exp(x); }, true)},
          {"confidence", shift.confidence},
          {"margin", margin},
          {"verdict", verdict == statistics::Verdict::kHolds       ? "same"
                      : verdict == statistics::Verdict::kUndecided ? "undecided"
                      : shift.value > 0.0                          ? "slower"
                                                                   : "faster"},
          {"needs_pairs", nullptr}};
}

}  // namespace

Result<ordered_json> run_cost(const CostOptions& options, const ordered_json& machine, const CostWatch& watch) {
  Measurement measurement(options, watch);
  EADEM_RETURN_IF_ERROR(measurement.open());
  EADEM_RETURN_IF_ERROR(measurement.run());
  return measurement.document(machine);
}

Result<ordered_json> compare_saved_costs(const ordered_json& before, const ordered_json& now, double margin) try {
  if (!is_cost(before) || !is_cost(now)) return Error{"not two results of `eadem cost -m MODEL --json`"};
  std::string unlike;
  note_unlike(before, now, "a", {"mode", "numerics"}, unlike);
  note_unlike(before, now, "b", {"mode", "numerics"}, unlike);
  note_unlike(before, now, "machine", {"cpu", "cores"}, unlike);
  note_unlike(before, now, "conditions",
              {"identity_but_numerics", "isa", "threads", "device", "prompt_tokens", "max_tokens", "batch", "max_batch",
               "prefill_chunk", "mixed_chunk", "async_scheduling", "speculation"},
              unlike);
  if (!unlike.empty()) return Error{"unlike runs: " + unlike};
  ordered_json document = {{"kind", "cost"},
                           {"schema", 1},
                           {"verdict", "undecided"},
                           {"summary", ""},
                           {"a", now["a"]},
                           {"b", before["a"]},
                           {"before", true},
                           {"machine", now["machine"]},
                           {"conditions", now["conditions"]},
                           {"design", {{"confidence", statistics::kConfidence}, {"margin", margin}}},
                           {"conversion", kConversion}};
  document["a"]["label"] = "now";
  document["b"]["label"] = "before";
  document["metrics"] = ordered_json::array();
  std::set<std::string> verdicts;
  for (const Kind& kind : kKinds) {
    const std::vector<double> old_blocks = blocks_of(before, kind.name), new_blocks = blocks_of(now, kind.name);
    if (old_blocks.size() < kFewestBlocks || new_blocks.size() < kFewestBlocks)
      return Error{"too few pairs of '" + std::string(kind.name) + "': both need at least " +
                   std::to_string(2 * kFewestBlocks)};
    // Five intervals that hold together at 0.95, by Bonferroni's correction.
    const double confidence = 1.0 - (1.0 - statistics::kConfidence) / static_cast<double>(std::size(kKinds));
    const ordered_json about = {{"name", kind.name}, {"title", kind.title}, {"unit", kind.unit}};
    document["metrics"].push_back(
        change_of(about, statistics::shift_interval(old_blocks, new_blocks, confidence), margin));
    verdicts.insert(document["metrics"].back()["verdict"]);
  }
  const bool slower = verdicts.contains("slower"), faster = verdicts.contains("faster");
  document["verdict"] = slower && faster                 ? "mixed"
                        : slower                         ? "slower"
                        : faster                         ? "faster"
                        : verdicts.contains("undecided") ? "undecided"
                                                         : "same";
  document["summary"] = summary_of(document);
  return document;
} catch (const nlohmann::json::exception&) {
  return Error{"a field of the results has a type that `eadem cost` does not write"};
}

std::string cost_markdown(const ordered_json& document) {
  const std::string a = document["a"]["label"], b = document["b"]["label"];
  std::string text = "# Cost of the contract\n\n" + document["summary"].get<std::string>() + "\n\n";
  text += "| metric | " + a + ", median (spread) | " + b +
          ", median (spread) | time increase | throughput ratio | verdict |\n";
  text += "|---|---|---|---|---|---|\n";
  for (const ordered_json& metric : document["metrics"]) text += table_row(metric);
  text += "\n";
  for (const ordered_json& line : document["conversion"]) text += "- " + line.get<std::string>() + "\n";
  const ordered_json& design = document["design"];
  if (design.contains("pairs"))
    text += "- " + design["pairs"].dump() +
            " pairs in blocks of ABBA and BAAB; intervals of at least 95 % of the "
            "median ratio; margin " +
            percent(design["margin"].get<double>(), "%.0f %%") + "\n";
  const ordered_json& conditions = document["conditions"];
  text += "- " + conditions["model"].get<std::string>() + ", " + document["a"]["numerics"].get<std::string>() + ", " +
          conditions["isa"].get<std::string>() + ", " + conditions["threads"].dump() + " threads, batch of " +
          conditions["batch"].dump() + ", prompts of " + conditions["prompt_tokens"].dump() + " tokens, " +
          conditions["max_tokens"].dump() + " drawn; " + document["machine"].value("cpu", std::string()) + "\n";
  if (document.contains("memory")) {
    const auto mib = [](const ordered_json& bytes) { return std::to_string(bytes.get<uint64_t>() >> 20) + " MiB"; };
    const ordered_json &memory = document["memory"], &capacity = document["capacity"];
    text += "- peak resident memory: " + mib(memory["a"]["peak_resident_bytes"]) + " and " +
            mib(memory["b"]["peak_resident_bytes"]) + "; " + mib(memory["a"]["kv_bytes"]) + " of KV memory hold " +
            capacity["a"]["sequences"].dump() + " and " + capacity["b"]["sequences"].dump() + " sequences of " +
            capacity["sequence_tokens"].dump() + " tokens\n";
  }
  for (const ordered_json& warning : document.value("warnings", ordered_json::array()))
    text += "- **" + warning.get<std::string>() + "**\n";
  return text;
}

}  // namespace eadem::audit
