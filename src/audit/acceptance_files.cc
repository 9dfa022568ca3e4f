#include "audit/acceptance_files.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "audit/report.h"
#include "contract/dsse.h"
#include "contract/statement.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

std::string full_name(const CellResult& cell) {
  return cell.numerics.empty() ? cell.cell.name : cell.numerics + "/" + cell.cell.name;
}

ordered_json names_of(const MatrixResult& result, Verdict verdict) {
  ordered_json names = ordered_json::array();
  for (const CellResult& cell : result.cells) {
    if (cell.verdict == verdict) names.push_back(full_name(cell));
  }
  return names;
}

// Text for an attribute or an element: no markup, and no control characters, which XML 1.0 has no way to write.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      default: out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
  }
  return out;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  return text;
}

std::string junit_case(const CellResult& cell) {
  std::string text = "    <testcase classname=\"" + escaped("eadem.accept." + cell.numerics) + "\" name=\"" +
                     escaped(cell.cell.name) + "\" time=\"" + seconds_text(cell.seconds) + "\"";
  if (cell.verdict == Verdict::kPass) return text + "/>\n";
  text += ">\n";
  if (cell.verdict == Verdict::kFail) {
    text += "      <failure message=\"" + escaped(cell.reason) + "\">" + escaped(cell.cell.invariant + "\n") +
            escaped(cell.first_difference.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) +
            "</failure>\n";
  } else {
    text += "      <skipped message=\"" + escaped(cell.reason) + "\"/>\n";
  }
  return text + "    </testcase>\n";
}

struct Suite {
  std::string name, cases;
  int tests = 0, failures = 0, skipped = 0;
  double seconds = 0.0;
};

Result<void> write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) return Error{path.string() + " cannot be written"};
  return {};
}

}  // namespace

std::string acceptance_statement(const MatrixResult& result) {
  std::vector<contract::Subject> subjects;
  for (const auto& [numerics, identity] : result.identities.items())
    subjects.push_back({result.model + " " + numerics, {{"blake3", identity.get<std::string>()}}});
  // An endpoint that tells no identity is known by its address alone.
  if (subjects.empty()) subjects.push_back({result.model, {{"target", result.target}}});
  ordered_json configuration = ordered_json::array();
  configuration.push_back({{"name", "corpus " + result.corpus.value("name", std::string())},
                           {"digest", {{"blake3", result.corpus.value("digest", std::string())}}}});
  const ordered_json predicate = {
      {"result", passed(result) ? "PASSED" : "FAILED"},  {"configuration", configuration},
      {"passedTests", names_of(result, Verdict::kPass)}, {"warnedTests", ordered_json::array()},
      {"failedTests", names_of(result, Verdict::kFail)}, {"eadem", to_json(result)}};
  return contract::statement(subjects, kTestResultType, predicate);
}

std::string acceptance_junit(const MatrixResult& result) {
  std::vector<Suite> suites;
  for (const CellResult& cell : result.cells) {
    const std::string name = "eadem accept " + result.model + " " + cell.numerics;
    if (suites.empty() || suites.back().name != name) suites.push_back({name, {}});
    Suite& suite = suites.back();
    suite.cases += junit_case(cell);
    ++suite.tests;
    suite.failures += cell.verdict == Verdict::kFail ? 1 : 0;
    suite.skipped += cell.verdict == Verdict::kNotTestable || cell.verdict == Verdict::kNotRun ? 1 : 0;
    suite.seconds += cell.seconds;
  }
  const Tally count = tally(result);
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"" +
                     std::to_string(result.cells.size()) + "\" failures=\"" + std::to_string(count.fail) +
                     "\" time=\"" + seconds_text(result.seconds) + "\">\n";
  for (const Suite& suite : suites) {
    text += "  <testsuite name=\"" + escaped(suite.name) + "\" tests=\"" + std::to_string(suite.tests) +
            "\" failures=\"" + std::to_string(suite.failures) + "\" errors=\"0\" skipped=\"" +
            std::to_string(suite.skipped) + "\" time=\"" + seconds_text(suite.seconds) + "\" timestamp=\"" +
            escaped(result.started) + "\">\n" + suite.cases + "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

Result<void> write_acceptance(const MatrixResult& result, const std::string& folder,
                              const std::optional<contract::SigningKey>& key) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) return Error{"--out " + folder + ": cannot be made: " + fault.message()};
  const std::filesystem::path path(folder);
  std::string statement = acceptance_statement(result);
  if (key) statement = contract::seal(contract::kStatementPayload, statement, *key);
  EADEM_RETURN_IF_ERROR(write_file(path / "accept.json", statement + "\n"));
  EADEM_RETURN_IF_ERROR(write_file(path / "junit.xml", acceptance_junit(result)));
  return write_file(path / "accept.html", report_page(to_json(result)));
}

}  // namespace eadem::audit
