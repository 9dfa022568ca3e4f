#include "audit/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace eadem::audit {
namespace {

// Whole milliseconds: more digits say nothing and make two runs of the same document needlessly unlike.
double rounded(double seconds) { return std::round(seconds * 1000.0) / 1000.0; }

std::string_view verdict_of(const MatrixResult& result, const Tally& count) {
  if (passed(result)) return "pass";
  return count.fail > 0 || count.not_run > 0 || result.interrupted ? "fail" : "not_testable";
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass: return "pass";
    case Verdict::kFail: return "fail";
    case Verdict::kNotTestable: return "not_testable";
    case Verdict::kNotRun: return "not_run";
  }
  return "fail";
}

Tally tally(const MatrixResult& result) {
  Tally count;
  for (const CellResult& cell : result.cells) {
    switch (cell.verdict) {
      case Verdict::kPass: ++count.pass; break;
      case Verdict::kFail: ++count.fail; break;
      case Verdict::kNotTestable: ++count.not_testable; break;
      case Verdict::kNotRun: ++count.not_run; break;
    }
  }
  return count;
}

bool passed(const MatrixResult& result) {
  const Tally count = tally(result);
  if (result.interrupted || count.fail > 0 || count.not_run > 0) return false;
  std::map<std::string, bool> controls;  // numerics -> whether one of its controls saw what it should
  bool any = false;
  for (const CellResult& cell : result.cells) {
    const bool passes = cell.verdict == Verdict::kPass;
    if (cell.cell.required && !passes) return false;
    if (cell.cell.control) controls[cell.numerics] |= passes;
    any |= passes && !cell.cell.control;
  }
  return any && std::all_of(controls.begin(), controls.end(), [](const auto& one) { return one.second; });
}

std::string summary(const MatrixResult& result) {
  const Tally count = tally(result);
  std::string text = std::to_string(count.pass) + " of " + std::to_string(result.cells.size()) + " cells passed";
  const auto add = [&](int number, const char* words) {
    if (number > 0) text += ", " + std::to_string(number) + " " + words;
  };
  add(count.fail, "failed");
  add(count.not_testable, "were not testable");
  add(count.not_run, "did not run");
  if (passed(result) || count.fail > 0 || count.not_run > 0) return text;
  return text + "; too little was testable to pass";
}

nlohmann::ordered_json to_json(const Cell& cell) {
  return {{"name", cell.name},     {"invariant", cell.invariant}, {"variable", cell.variable},
          {"values", cell.values}, {"level", cell.level},         {"categories", cell.categories},
          {"proof", cell.proof},   {"control", cell.control},     {"required", cell.required}};
}

nlohmann::ordered_json to_json(const CellResult& result) {
  nlohmann::ordered_json object = to_json(result.cell);
  object["numerics"] = result.numerics;
  object["verdict"] = to_string(result.verdict);
  object["reason"] = result.reason;
  object["compared"] = result.compared;
  object["equal"] = result.equal;
  object["seconds"] = rounded(result.seconds);
  object["first_difference"] = result.first_difference;
  object["evidence"] = result.evidence;
  return object;
}

nlohmann::ordered_json to_json(const MatrixResult& result) {
  const Tally count = tally(result);
  nlohmann::ordered_json object = {
      {"kind", "accept"},
      {"verdict", verdict_of(result, count)},
      {"summary", summary(result)},
      {"matrix", result.matrix},
      {"target", result.target},
      {"model", result.model},
      {"numerics", result.numerics},
      {"identities", result.identities},
      {"version", result.version},
      {"command", result.command},
      {"started", result.started},
      {"seconds", rounded(result.seconds)},
      {"interrupted", result.interrupted},
      {"machine", result.machine},
      {"corpus", result.corpus},
      {"options", result.options},
      {"counts",
       {{"pass", count.pass}, {"fail", count.fail}, {"not_testable", count.not_testable}, {"not_run", count.not_run}}},
  };
  object["cells"] = nlohmann::ordered_json::array();
  for (const CellResult& cell : result.cells) object["cells"].push_back(to_json(cell));
  return object;
}

}  // namespace eadem::audit
