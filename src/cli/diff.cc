#include "audit/diff.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/report_flags.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  audit::DiffOptions diff;
  ReportFlags report;
  int seed = 1;
};

std::string text_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// "0.0075 (0.0015 to 0.0218)"
std::string interval(const ordered_json& entry, const char* estimate) {
  const auto number = [&](const char* field) {
    if (!entry[field].is_number()) return std::string("not known");
    char text[32];
    std::snprintf(text, sizeof(text), "%.4g", entry[field].get<double>());
    return std::string(text);
  };
  return number(estimate) + " (" + number("low") + " to " + number("high") + ", margin " + number("margin") + ")";
}

void print(const ordered_json& document) {
  std::printf("%s\n", text_of(document["summary"]).c_str());
  for (const ordered_json& level : document["levels"]) {
    std::printf("%-13s %-10s %s\n", text_of(level["level"]).c_str(), text_of(level["verdict"]).c_str(),
                text_of(level["statement"]).c_str());
    for (const ordered_json& test : level.value("tests", ordered_json::array())) {
      std::printf("  %-11s %-10s %s %s; %s\n", text_of(test["name"]).c_str(), text_of(test["verdict"]).c_str(),
                  interval(test, "estimate").c_str(), text_of(test["unit"]).c_str(), text_of(test["sample"]).c_str());
    }
    for (const ordered_json& metric : level.value("metrics", ordered_json::array())) {
      std::printf("  %-11s %-10s %s; %s items\n", text_of(metric["metric"]).c_str(), text_of(metric["verdict"]).c_str(),
                  interval(metric, "difference").c_str(), text_of(metric["items"]).c_str());
    }
  }
  std::printf("identity: %s\n", text_of(document["identity"]["statement"]).c_str());
}

Result<int> run(const Options& options) {
  audit::DiffOptions diff = options.diff;
  diff.margins.seed = static_cast<uint64_t>(options.seed);
  ordered_json document;
  {
    const Waiting note("comparing");
    EADEM_ASSIGN_OR_RETURN(document, audit::compare_runs(diff));
  }
  EADEM_RETURN_IF_ERROR(options.report.deliver(document));
  if (!options.report.json) print(document);
  if (document["verdict"] == "holds") return 0;
  print_error("level " + std::string(document["asked_level"]) + ": " + std::string(document["verdict"]));
  return kCheckFailed;
}

}  // namespace

Run add_diff(Flags flags) {
  auto options = std::make_shared<Options>();
  audit::DiffOptions& diff = options->diff;
  flags.positional("A", "a file of answers (of generate, score, or replies of a server, one a line), or a trace",
                   &diff.a, true);
  flags.positional("B", "what to compare it with", &diff.b, true);
  flags.option("--level", "LEVEL", "that must hold for exit status 0: bits, tokens, distribution or quality [bits]",
               [&diff](const std::string& text) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(diff.level, audit::parse_level(text));
                 return {};
               });
  flags.repeated("--metric", "NAME", "a field that judges an answer: a number, or true and false [correct, score, ...]",
                 [&diff](const std::string& name) -> Result<void> {
                   diff.metrics.push_back(name);
                   return {};
                 });
  add_margin(flags, "--margin-coupling", "share of answers that may differ under the same seed [0.05]", 1.0,
             &diff.margins.coupling);
  add_margin(flags, "--margin-tokens", "distance of token distributions that does not matter [0.1]", 1.0,
             &diff.margins.two_sample);
  add_margin(flags, "--margin-logits", "mean difference of log-odds that does not matter [0.005]", 10.0,
             &diff.margins.logits);
  add_margin(flags, "--margin-quality", "difference of a metric's mean that does not matter [0.02]", 1e9,
             &diff.quality_margin);
  flags.integer("--positions", "tokens of an answer that distributions are compared at [16]", 1, 4096,
                &diff.margins.positions);
  flags.integer("--seed", "of permutations [1]", 0, 1 << 30, &options->seed);
  flags.text("--about-a", "FILE", "what `eadem info --json` or GET /v1/fingerprint told of A", &diff.about_a);
  flags.text("--about-b", "FILE", "the same of B", &diff.about_b);
  options->report.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
