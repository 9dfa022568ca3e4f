#include "audit/accept/runner.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "audit/accept/trial.h"
#include "audit/accept/ways.h"
#include "audit/difference.h"

namespace eadem::audit::accept {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// "fma32" of "fma32-v1".
std::string short_name(const std::string& full) { return full.substr(0, full.find('-')); }

// The kernel sets that run here, by asking for each.
std::vector<std::string> kernel_sets(Lab& lab, bool reference) {
  std::vector<std::string> sets;
  for (const std::string_view name :
       {"reference", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_dotprod"}) {
    if (name == "reference" && !reference) continue;
    EngineOptions options = lab.options();
    options.isa = name;
    options.device = "cpu";
    if (lab.open_cold(options).ok()) sets.emplace_back(name);
  }
  return sets;
}

void settle(CellResult& result, Verdict verdict, std::string reason) {
  result.verdict = verdict;
  result.reason = std::move(reason);
}

// The worst of what was found so far stands: once a cell failed, it failed.
void fail(CellResult& result, const std::string& reason) {
  if (result.verdict != Verdict::kFail) settle(result, Verdict::kFail, reason);
}

void add_trial(CellResult& result, const Trial& trial, double seconds) {
  result.evidence["runs"].push_back(trial.evidence(seconds));
  result.compared += trial.compared();
  result.equal += trial.equal();
  if (result.first_difference.is_null()) result.first_difference = trial.first_difference();
}

std::string in_words(const Trial& trial) {
  const int different = trial.compared() - trial.equal();
  ordered_json place = trial.first_difference();
  return std::to_string(different) + " of " + std::to_string(trial.compared()) + " answers differ at " + trial.value() +
         ": " + place["request"].get<std::string>() + ", " + describe_difference(place);
}

// False: the cell is at an end.
bool run_value(CellResult& result, const CellSpec& spec, const std::string& value, Lab& lab,
               const std::vector<Question>& questions) {
  const auto start = Clock::now();
  Trial trial(spec, value, lab, questions);
  Result<void> status = trial.prepare();
  if (status.ok()) status = find_way(spec.way)->run(trial);
  if (lab.workshop().interrupted()) {
    settle(result, Verdict::kNotRun, "interrupted");
    return false;
  }
  if (status.ok() && !trial.why_not_testable().empty()) {
    if (result.verdict != Verdict::kFail) settle(result, Verdict::kNotTestable, trial.why_not_testable());
    return true;
  }
  add_trial(result, trial, since(start));
  if (trial.compared() > trial.equal()) fail(result, in_words(trial));
  if (!status.ok()) {
    fail(result, "at " + value + ": " + status.error().message);
  } else if (const std::string unproved = trial.unproved(); !unproved.empty()) {
    fail(result, unproved);
  } else if (result.verdict == Verdict::kNotRun) {
    result.verdict = Verdict::kPass;
  }
  return true;
}

std::vector<std::string> expand(const CellSpec& spec, const std::string& selection, Lab& lab) {
  const auto& values = spec.values_of(selection);
  if (spec.option != "isa" || values.size() != 1) return values;
  if (values[0] == kAllSets) return kernel_sets(lab, true);
  return values[0] == kFastSets ? kernel_sets(lab, false) : values;
}

class Runner {
 public:
  Runner(const Matrix& matrix, const Plan& plan, const Workshop& workshop, const Watcher& watcher)
      : matrix_(matrix), plan_(plan), workshop_(workshop), watcher_(watcher) {}

  Result<MatrixResult> run();

 private:
  bool wanted(const CellSpec& spec, const std::string& numerics) const;
  Limits limits_of(const CellSpec& spec, const std::string& numerics) const;
  Result<void> run_numerics(const std::string& asked);
  CellResult run_one(const CellSpec& spec, Lab& lab, const std::string& numerics);
  CellResult free_control(const CellSpec& spec, const std::string& numerics);
  CellResult numerics_control(const CellSpec& spec, Lab& lab, const std::string& numerics);

  const Matrix& matrix_;
  const Plan& plan_;
  const Workshop& workshop_;
  const Watcher& watcher_;
  MatrixResult result_;
  size_t done_ = 0;
};

bool Runner::wanted(const CellSpec& spec, const std::string& numerics) const {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  return spec.in(plan_.selection) && has(spec.numerics, numerics) && has(plan_.cells, spec.cell.name);
}

Limits Runner::limits_of(const CellSpec& spec, const std::string& numerics) const {
  Limits limits;
  if (const auto found = matrix_.limits.find(plan_.selection); found != matrix_.limits.end()) limits = found->second;
  if (const auto found = matrix_.numerics_limits.find(numerics); found != matrix_.numerics_limits.end())
    limits = limits.with(found->second);
  return limits.with(spec.limits);
}

// Cells of the matrix in free-order arithmetic, against what each request gets alone in it. It passes where each of
// them fails because of a difference.
CellResult Runner::free_control(const CellSpec& spec, const std::string& numerics) {
  CellResult result;
  Lab lab(workshop_, numerics, "free");
  if (const auto plain = lab.plain(); !plain.ok()) {
    settle(result, workshop_.interrupted() ? Verdict::kNotRun : Verdict::kNotTestable, plain.error().message);
    return result;
  }
  Facts facts;
  std::string blind;
  for (const std::string& name : spec.values_of(plan_.selection)) {
    const CellSpec& cell = *matrix_.find(name);
    if (!cell.sensitive_on_gpu && workshop_.engine.device != "cpu") continue;
    const auto start = Clock::now();
    CellResult found = run_cell(cell, plan_.selection, limits_of(cell, numerics), lab);
    if (found.verdict == Verdict::kNotRun) {
      settle(result, Verdict::kNotRun, found.reason);
      return result;
    }
    const bool saw = found.equal < found.compared;
    ++facts["cells_asked"];
    facts["cells_that_saw"] += saw ? 1 : 0;
    if (!saw) blind += (blind.empty() ? "" : ", ") + name;
    result.compared += found.compared, result.equal += found.equal;
    if (result.first_difference.is_null() && saw) {
      result.first_difference = std::move(found.first_difference);
      result.first_difference["cell"] = name;
    }
    result.evidence["runs"].push_back({{"value", name},
                                       {"compared", found.compared},
                                       {"equal", found.equal},
                                       {"seconds", since(start)},
                                       {"counters", {{"different", found.compared - found.equal}}},
                                       {"proof",
                                        {{{"condition", "different >= 1"},
                                          {"counted", found.compared - found.equal},
                                          {"wanted", 1},
                                          {"held", saw}}}}});
  }
  ordered_json proof = ordered_json::array();
  for (const Condition& condition : spec.proof) proof.push_back(condition.check(facts, ""));
  result.evidence["proof"] = proof;
  const bool held =
      std::all_of(proof.begin(), proof.end(), [](const auto& one) { return one["held"].template get<bool>(); });
  if (held && blind.empty()) {
    result.verdict = Verdict::kPass;
  } else {
    fail(result, "free-order arithmetic passed " + blind + ": this matrix would not see such a fault");
  }
  return result;
}

// The same requests under other numerics. It passes where each of them is seen to give other answers.
CellResult Runner::numerics_control(const CellSpec& spec, Lab& lab, const std::string& numerics) {
  CellResult result;
  const auto questions = lab.questions(spec.cell.categories, limits_of(spec, numerics));
  if (!questions.ok()) {
    fail(result, questions.error().message);
    return result;
  }
  for (const std::string& other : spec.values_of(plan_.selection)) {
    if (other == numerics) continue;
    const auto start = Clock::now();
    Lab foreign(workshop_, other, lab.mode());
    Trial trial(spec, other, lab, questions.value());
    Result<void> status;
    for (const Question& question : questions.value()) {
      const auto is = foreign.alone(question.request);
      status = is.ok() ? trial.hold(question, is.value()->front()) : Result<void>(is.error());
      if (!status.ok()) break;
    }
    if (workshop_.interrupted()) {
      settle(result, Verdict::kNotRun, "interrupted");
      return result;
    }
    add_trial(result, trial, since(start));
    if (!status.ok()) {
      fail(result, "at " + other + ": " + status.error().message);
    } else if (const std::string unproved = trial.unproved(); !unproved.empty()) {
      fail(result, "answers under " + other + " passed as equal: this matrix sees no difference");
    } else if (result.verdict == Verdict::kNotRun) {
      result.verdict = Verdict::kPass;
    }
  }
  return result;
}

CellResult Runner::run_one(const CellSpec& spec, Lab& lab, const std::string& numerics) {
  if (workshop_.interrupted()) {
    CellResult result;
    settle(result, Verdict::kNotRun, "interrupted");
    return result;
  }
  if (spec.way == kFreeControl) return free_control(spec, numerics);
  if (spec.way == kNumericsControl) return numerics_control(spec, lab, numerics);
  return run_cell(spec, plan_.selection, limits_of(spec, numerics), lab);
}

Result<void> Runner::run_numerics(const std::string& asked) {
  Lab lab(workshop_, asked, workshop_.engine.mode);
  const auto plain = lab.plain();
  if (!plain.ok()) return workshop_.interrupted() ? Result<void>() : Result<void>(plain.error());
  const std::string full = plain.value()->info().numerics, numerics = short_name(full);
  result_.numerics.push_back(full);
  result_.identities[full] = plain.value()->identity();
  std::vector<const CellSpec*> specs;
  for (const CellSpec& spec : matrix_.cells) {
    if (wanted(spec, numerics)) specs.push_back(&spec);
  }
  for (const CellSpec* spec : specs) {
    if (watcher_.on_start) watcher_.on_start(done_, specs.size() * plan_.numerics.size(), full, spec->cell);
    const auto start = Clock::now();
    CellResult result = run_one(*spec, lab, numerics);
    result.cell = spec->cell;
    result.cell.values = spec->option == "isa" ? expand(*spec, plan_.selection, lab) : spec->values_of(plan_.selection);
    result.numerics = full;
    result.seconds = since(start);
    ++done_;
    if (watcher_.on_end) watcher_.on_end(result);
    result_.cells.push_back(std::move(result));
  }
  return {};
}

Result<MatrixResult> Runner::run() {
  for (const std::string& name : plan_.cells) {
    if (matrix_.find(name) == nullptr)
      return Error{"--cell " + name + ": the matrix " + matrix_.name + " has no such cell"};
  }
  const auto start = Clock::now();
  result_.matrix = plan_.selection;
  result_.target = "in process";
  result_.model = workshop_.engine.model;
  result_.started = now_text();
  result_.corpus = {{"name", workshop_.corpus->name},
                    {"digest", workshop_.corpus->digest},
                    {"requests", workshop_.corpus->requests.size()}};
  result_.options = {{"declared_in", matrix_.name + ".toml"},
                     {"mode", workshop_.engine.mode},
                     {"isa", workshop_.engine.isa},
                     {"threads", workshop_.engine.threads}};
  for (const std::string& numerics : plan_.numerics) EADEM_RETURN_IF_ERROR(run_numerics(numerics));
  result_.interrupted = workshop_.interrupted();
  result_.seconds = since(start);
  return std::move(result_);
}

}  // namespace

CellResult run_cell(const CellSpec& spec, const std::string& selection, const Limits& limits, Lab& lab) {
  CellResult result;
  result.cell = spec.cell;
  const auto questions = lab.questions(spec.cell.categories, limits);
  if (!questions.ok()) {
    settle(result, lab.workshop().interrupted() ? Verdict::kNotRun : Verdict::kFail, questions.error().message);
    return result;
  }
  if (questions.value().empty()) {
    settle(result, Verdict::kNotTestable,
           "the corpus has no request of these categories that the model can take (no tokenizer or chat template)");
    return result;
  }
  const auto values = expand(spec, selection, lab);
  if (spec.option == "isa" && values.size() < 2) {
    settle(result, Verdict::kNotTestable, "this machine runs one kernel set alone");
    return result;
  }
  for (const std::string& value : values) {
    if (!run_value(result, spec, value, lab, questions.value())) break;
  }
  return result;
}

Result<MatrixResult> run_matrix(const Matrix& matrix, const Plan& plan, const Workshop& workshop,
                                const Watcher& watcher) {
  return Runner(matrix, plan, workshop, watcher).run();
}

}  // namespace eadem::audit::accept
