#include "audit/black_box/black_box.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "audit/black_box/declaration.h"
#include "audit/black_box/ways.h"

namespace eadem::audit::black_box {
namespace {

using Clock = std::chrono::steady_clock;

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

CellResult without_running(const CellPlan& plan, Verdict verdict, const std::string& reason) {
  CellResult result;
  result.cell = plan.cell;
  result.verdict = verdict;
  result.reason = reason;
  return result;
}

// lost: why there is no endpoint any more; empty: there is.
CellResult run_cell(const CellPlan& plan, Site& site, std::string& lost) {
  if (plan.way == kUntestable) return without_running(plan, Verdict::kNotTestable, plan.why);
  if (site.traffic().stopped()) return without_running(plan, Verdict::kNotRun, "interrupted");
  if (!lost.empty()) return without_running(plan, Verdict::kNotRun, "the endpoint was lost: " + lost);
  Cell cell = plan.cell;
  cell.level = site.can().level();
  Trial trial(std::move(cell));
  const Clock::time_point start = Clock::now();
  way_of(plan.way)->run(site, plan.cell.values, trial);
  if (site.traffic().stopped()) trial.interrupted();
  lost = trial.lost();
  return trial.finish(since(start));
}

std::string told(const Abilities& can, const char* field) {
  return can.fingerprint_document.is_object() ? can.fingerprint_document.value(field, std::string()) : std::string();
}

}  // namespace

Result<MatrixResult> accept_endpoint(const BlackBoxOptions& options) {
  EADEM_ASSIGN_OR_RETURN(const auto plans, read_declaration(options.declaration, options.matrix));
  EADEM_ASSIGN_OR_RETURN(const auto traffic, Traffic::open(options.endpoint, options.stop));
  MatrixResult result;
  const Clock::time_point start = Clock::now();
  result.started = utc_now();
  options.progress(0, static_cast<int>(plans.size()), "what the endpoint can do");
  EADEM_ASSIGN_OR_RETURN(const Abilities can, discover(*traffic, options.endpoint));
  traffic->watch(can.gauge);
  Site site(*traffic, can, options.endpoint);
  const std::string numerics = told(can, "numerics");
  std::string lost;
  for (const CellPlan& plan : plans) {
    options.progress(static_cast<int>(result.cells.size()), static_cast<int>(plans.size()), plan.cell.name);
    result.cells.push_back(run_cell(plan, site, lost));
    result.cells.back().numerics = numerics;
  }
  result.matrix = options.matrix;
  result.target = traffic->url();
  result.model = can.model;
  result.version = options.version;
  result.command = options.command;
  result.interrupted = traffic->stopped();
  if (!numerics.empty()) {
    result.numerics = {numerics};
    result.identities[numerics] = told(can, "fingerprint");
  }
  result.corpus = {{"name", "prompts of the endpoint matrix"}, {"requests", site.requests()}};
  result.options = {{"endpoint", to_json(can)},
                    {"max_concurrent", options.endpoint.max_concurrent},
                    {"timeout_seconds", options.endpoint.timeout_seconds},
                    {"requests_sent", traffic->requests()},
                    {"retries", traffic->retries()}};
  result.seconds = since(start);
  return result;
}

}  // namespace eadem::audit::black_box
