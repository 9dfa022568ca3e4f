#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "api/request_json.h"
#include "audit/cost_run.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/machine.h"
#include "cli/report_flags.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  audit::CostOptions cost;
  ReportFlags report;
  std::string before, now;
  double budget = 0.0;  // 0: none
  int seed = 1;
};

Result<ordered_json> read_result(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{"cannot read " + path + ": check the path and its permissions"};
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = api::parse_line(text);
  if (!parsed.ok()) return Error{path + ": " + parsed.error().message};
  return parsed;
}

Result<ordered_json> measure(const Options& options) {
  audit::CostOptions cost = options.cost;
  cost.engine = options.engine.options;
  cost.seed = static_cast<uint64_t>(options.seed);
  if (cost.pairs % 2 != 0) return Error{"option --pairs must be even: runs come in blocks of two pairs"};
  if (cost.engine.mode != "contract") return Error{"--mode does not go with `cost`, which runs both"};
  if (!cost.engine.trace_file.empty()) return Error{"--trace does not go with `cost`: writing it takes time"};
  cost.engine.max_batch = std::max(cost.engine.max_batch, cost.workload.batch);
  catch_interrupts();
  Progress bar;
  const audit::CostWatch watch = {[&bar](int done, int all) {
                                    bar.show(static_cast<uint64_t>(done), static_cast<uint64_t>(all),
                                             "run " + std::to_string(done) + " of " + std::to_string(all));
                                  },
                                  [] { return !interrupted(); }};
  auto document = audit::run_cost(cost, describe_machine(), watch);
  bar.clear();
  return document;
}

// Metrics whose whole interval lies above the budget.
int judge(const ordered_json& document, double budget) {
  std::string over;
  for (const ordered_json& metric : document["metrics"]) {
    if (budget > 0.0 && metric["time_increase"]["low"].get<double>() > budget)
      over += (over.empty() ? "" : ", ") + metric["name"].get<std::string>();
  }
  if (!over.empty()) {
    print_error("over the budget: " + over);
    return kCheckFailed;
  }
  if (document.contains("evidence") && document["evidence"]["runs_a_equal"] == false) {
    print_error("runs under the contract gave different answers");
    return kCheckFailed;
  }
  return 0;
}

Result<int> run(const Options& options) {
  const bool saved = !options.before.empty();
  if (saved && options.now.empty()) return Error{"give two results, BEFORE and NOW, or none"};
  ordered_json document;
  if (saved) {
    EADEM_ASSIGN_OR_RETURN(const ordered_json before, read_result(options.before));
    EADEM_ASSIGN_OR_RETURN(const ordered_json now, read_result(options.now));
    EADEM_ASSIGN_OR_RETURN(document, audit::compare_saved_costs(before, now, options.cost.margin));
  } else {
    auto measured = measure(options);
    if (!measured.ok() && interrupted()) return kInterrupted;
    EADEM_ASSIGN_OR_RETURN(document, std::move(measured));
  }
  EADEM_RETURN_IF_ERROR(options.report.deliver(document));
  if (!options.report.json) std::fputs(audit::cost_markdown(document).c_str(), stdout);
  return judge(document, options.budget);
}

}  // namespace

Run add_cost(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional("BEFORE", "a result that --json gave earlier: tells what became of the cost, and measures nothing",
                   &options->before);
  flags.positional("NOW", "a later one of like runs", &options->now);
  flags.integer("--pairs", "pairs of runs, even; fewer than 16 decide nothing [20]", 2, 4000, &options->cost.pairs);
  flags.integer("--batch", "requests at once [4]", 1, 4096, &options->cost.workload.batch);
  flags.integer("--prompt-tokens", "tokens of each prompt [256]", 1, 1 << 20, &options->cost.workload.prompt_tokens);
  flags.integer("--max-tokens", "tokens to draw after each [32]", 2, 1 << 20, &options->cost.workload.max_tokens);
  add_margin(flags, "--margin", "time increase that does not matter [0.05]", 10.0, &options->cost.margin);
  add_margin(flags, "--budget", "time increase above which the exit status is 1 [none]", 1e6, &options->budget);
  flags.integer("--seed", "of the order of runs [1]", 0, 1 << 30, &options->seed);
  options->report.add(flags);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
