// eadem near-tie: where free-order arithmetic could draw another token, and where it does.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "audit/near_tie_report.h"
#include "audit/report.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/jsonl.h"
#include "cli/machine.h"
#include "cli/terminal.h"
#include "contract/build_info.h"
#include "text/blake3.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  audit::NearTieOptions measure;
  std::string corpus, out, html;
  bool json = false;
};

// "1:8,3:512"
Result<std::vector<audit::NearTieRun>> parse_runs(const std::string& text) {
  std::vector<audit::NearTieRun> runs;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const size_t colon = one.find(':');
    const auto threads = parse_integer(one.substr(0, colon), 1, 1024);
    const auto rows = parse_integer(colon == std::string::npos ? "" : one.substr(colon + 1), 1, 65536);
    if (!threads.ok() || !rows.ok() || runs.size() == 64) {
      return Error{"threads:rows, at most 64 of them, as in 1:8,3:512"};
    }
    runs.push_back({static_cast<int>(threads.value()), static_cast<int>(rows.value())});
    begin = end + 1;
  }
  return runs;
}

Result<audit::Corpus> read_lines(const std::string& path) {
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path));
  audit::Corpus corpus;
  corpus.name = std::filesystem::path(path).filename().string();
  text::Blake3 hash;
  for (std::string line; reader.next(line);) {
    hash.update(line + "\n");
    auto request = audit::parse_corpus_line(line);
    if (!request.ok()) {
      return Error{path + ", line " + std::to_string(reader.line_number()) + ": " + request.error().message};
    }
    request.value().category = std::filesystem::path(path).stem().string();
    corpus.requests.push_back(std::move(request).value());
    if (corpus.requests.size() > audit::kMostCorpusRequests) return Error{path + " has too many lines"};
  }
  corpus.digest = hash.hex_digest();
  return corpus;
}

Result<audit::Corpus> read(const std::string& path) {
  if (path.empty()) return audit::default_corpus();
  return std::filesystem::is_directory(path) ? audit::read_corpus(path) : read_lines(path);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  char text[32];
  ::gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Result<void> write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return Error{"cannot write " + path + ": is the folder there, and the disk not full?"};
  return {};
}

Result<int> run(Options& options) {
  EADEM_ASSIGN_OR_RETURN(const audit::Corpus corpus, read(options.corpus));
  options.measure.engine = options.engine.options;
  if (options.measure.engine.mode != "contract") return Error{"near-tie runs both modes itself: leave --mode out"};
  catch_interrupts();
  Progress progress;
  options.measure.progress = [&](uint64_t done, uint64_t total, std::string_view name) {
    progress.show(done, total, std::string(name));
    return !interrupted();
  };
  auto ties = audit::find_near_ties(corpus, options.measure);
  const double seconds = progress.seconds();
  progress.clear();
  if (interrupted()) return kInterrupted;
  if (!ties.ok()) return ties.error();
  ordered_json report = audit::near_tie_report(ties.value(), corpus);
  report["date"] = now();
  report["seconds"] = seconds;
  report["command"] = "eadem near-tie";
  report["machine"] = describe_machine();
  report["program"] = {{"version", contract::build_info().version}, {"commit", contract::build_info().commit}};
  const std::string text = to_line(report);
  if (!options.out.empty()) EADEM_RETURN_IF_ERROR(write(options.out, text + "\n"));
  if (!options.html.empty()) EADEM_RETURN_IF_ERROR(write(options.html, audit::report_page(report)));
  std::fputs(options.json ? (text + "\n").c_str() : audit::near_tie_text(report).c_str(), stdout);
  return report["verdict"] == "fail" ? kCheckFailed : 0;
}

}  // namespace

Run add_near_tie(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.text("--corpus", "PATH", "a folder of a corpus, or a .jsonl file of requests with ids [the default corpus]",
             &options->corpus);
  flags.integer("--max-tokens", "most positions of an answer [32]", 1, 1 << 20, &options->measure.max_tokens);
  flags.option("--runs", "LIST", "threads:rows of a step, one free-order run for each [1:8,3:8,1:512,3:512]",
               [options = options.get()](const std::string& value) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(options->measure.runs, parse_runs(value));
                 return {};
               });
  flags.text("--out", "FILE", "the report as JSON", &options->out);
  flags.text("--html", "FILE", "the report as one page", &options->html);
  flags.flag("--json", "print the JSON instead of a summary", &options->json);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
