// eadem accept: the acceptance matrix, from the declaration to the files of its result.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "audit/accept/runner.h"
#include "audit/acceptance_files.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/endpoint_flags.h"
#include "cli/engine_flags.h"
#include "cli/machine.h"
#include "cli/terminal.h"
#include "fetch/http.h"

namespace eadem::cli {
namespace {

namespace matrix = audit::accept;

struct Options {
  EngineFlags engine;
  EndpointFlags endpoint;
  std::string matrix = "quick", out, key, corpus;
  std::vector<std::string> cells;
  bool json = false, list = false;
};

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return path;
}

bool is_selection(const std::string& name) { return name == "quick" || name == "full"; }

// Where `numerics` is "all": whatever this build has.
std::vector<std::string> numerics_of(const Options& options) {
  if (options.engine.options.numerics != "all") return {options.engine.options.numerics};
  return {"fma32", "int8", "mma16"};
}

std::string command_line(const Options& options) {
  const EngineOptions& engine = options.engine.options;
  std::string line = "eadem accept ";
  line += options.endpoint.given() ? "--endpoint " + fetch::public_url(options.endpoint.options.endpoint.url)
                                   : "-m " + engine.model + " --numerics " + engine.numerics;
  line += " --matrix " + options.matrix;
  for (const std::string& cell : options.cells) line += " --cell " + cell;
  if (!options.corpus.empty()) line += " --corpus " + options.corpus;
  if (!options.out.empty()) line += " --out " + options.out;
  return line;
}

const char* word_of(audit::Verdict verdict) {
  switch (verdict) {
    case audit::Verdict::kPass: return "passed";
    case audit::Verdict::kFail: return "FAILED";
    case audit::Verdict::kNotTestable: return "not testable";
    case audit::Verdict::kNotRun: return "not run";
  }
  return "FAILED";
}

void print_cell(const audit::CellResult& result) {
  std::printf("%-9s %-24s %-12s %4d/%-4d %6.1f s%s%s\n", result.numerics.c_str(), result.cell.name.c_str(),
              word_of(result.verdict), result.equal, result.compared, result.seconds, result.reason.empty() ? "" : "  ",
              result.reason.c_str());
  std::fflush(stdout);
}

void print_list(const matrix::Matrix& declared, const std::string& selection) {
  for (const matrix::CellSpec& spec : declared.cells) {
    if (spec.in(selection)) std::printf("%-24s %s\n", spec.cell.name.c_str(), spec.cell.invariant.c_str());
  }
}

Result<void> check(const Options& options) {
  if (options.out.empty() && !options.key.empty()) return Error{"option --key goes with --out"};
  const std::string& mode = options.engine.options.mode;
  if (mode != "contract" && mode != "free")
    return Error{"option --mode is '" + mode + "'; it must be contract or free"};
  if (!options.engine.options.trace_file.empty()) return Error{"option --trace does not go with accept"};
  return {};
}

Result<int> finish(const Options& options, audit::MatrixResult result, const std::optional<contract::SigningKey>& key) {
  result.version = EADEM_VERSION;
  result.command = command_line(options);
  result.machine = describe_machine();
  if (!is_selection(options.matrix)) result.matrix = options.matrix;
  if (!options.out.empty()) EADEM_RETURN_IF_ERROR(audit::write_acceptance(result, options.out, key));
  const bool passed = audit::passed(result);
  if (options.json) {
    std::puts(to_line(audit::to_json(result)).c_str());
  } else {
    std::printf("%s: %s in %.1f s%s%s\n", passed ? "passed" : "FAILED", audit::summary(result).c_str(), result.seconds,
                options.out.empty() ? "" : ", written to ", options.out.c_str());
  }
  if (result.interrupted) {
    print_error("interrupted: " + audit::summary(result));
    return kInterrupted;
  }
  if (!passed) print_error("the acceptance matrix failed: " + audit::summary(result));
  return passed ? 0 : kCheckFailed;
}

// Against an endpoint: cells come at the end, all at once.
Result<int> run_outside(Options& options, const std::optional<contract::SigningKey>& key) {
  if (!options.cells.empty() || !options.corpus.empty() || options.list)
    return Error{"options --cell, --corpus and --list do not go with --endpoint"};
  EADEM_ASSIGN_OR_RETURN(audit::MatrixResult result, options.endpoint.run(options.matrix, command_line(options)));
  if (!options.json) {
    for (const audit::CellResult& cell : result.cells) print_cell(cell);
  }
  return finish(options, std::move(result), key);
}

Result<audit::MatrixResult> run_inside(const Options& options, const matrix::Matrix& declared,
                                       const matrix::Plan& plan) {
  audit::Corpus corpus;
  if (!options.corpus.empty()) {
    EADEM_ASSIGN_OR_RETURN(corpus, audit::read_corpus(options.corpus));
  }
  matrix::Workshop workshop;
  workshop.engine = options.engine.options;
  workshop.program = own_program();
  workshop.corpus = options.corpus.empty() ? &audit::default_corpus() : &corpus;
  workshop.interrupted = [] { return interrupted(); };
  catch_interrupts();
  Progress bar;
  matrix::Watcher watcher;
  watcher.on_start = [&](size_t done, size_t all, const std::string& numerics, const audit::Cell& next) {
    bar.show(done, all, numerics + " " + next.name);
  };
  watcher.on_end = [&](const audit::CellResult& result) {
    bar.clear();
    if (!options.json) print_cell(result);
  };
  return matrix::run_matrix(declared, plan, workshop, watcher);
}

Result<int> run(Options& options) {
  EADEM_RETURN_IF_ERROR(check(options));
  std::optional<contract::SigningKey> key;
  if (!options.key.empty()) {
    EADEM_ASSIGN_OR_RETURN(key, contract::SigningKey::load(options.key));
  }
  if (options.endpoint.given()) return run_outside(options, key);
  const bool known = is_selection(options.matrix);
  matrix::Matrix declared;
  if (known) {
    declared = matrix::matrix_of_model(options.engine.options.model);
  } else {
    EADEM_ASSIGN_OR_RETURN(declared, matrix::read_matrix(options.matrix));
  }
  const matrix::Plan plan{known ? options.matrix : "full", numerics_of(options), options.cells};
  if (options.list) {
    print_list(declared, plan.selection);
    return 0;
  }
  EADEM_ASSIGN_OR_RETURN(audit::MatrixResult result, run_inside(options, declared, plan));
  return finish(options, std::move(result), key);
}

}  // namespace

Run add_accept(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.text("--matrix", "quick|full|FILE", "which cells; FILE: a TOML declaration of one's own [quick]",
             &options->matrix);
  flags.text("--out", "DIR", "write accept.json, junit.xml and accept.html there", &options->out);
  flags.text("--key", "FILE", "sign accept.json with this private key (see `eadem keygen`)", &options->key);
  flags.text("--corpus", "DIR", "requests to use instead of those in the program", &options->corpus);
  flags.repeated("--cell", "NAME", "this cell alone; may be repeated", [o = options.get()](const std::string& value) {
    o->cells.push_back(value);
    return Result<void>();
  });
  flags.flag("--list", "name the cells and do nothing", &options->list);
  flags.flag("--json", "the result as a JSON object", &options->json);
  options->engine.add(flags);
  options->endpoint.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
