#include <cinttypes>
#include <cstdio>
#include <memory>
#include <set>

#include "api/request_json.h"
#include "audit/difference.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/jsonl.h"
#include "cli/pipeline.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;
using json = ordered_json;  // a schema orders its answer: fields keep their order

struct Options {
  EngineFlags engine;
  std::string file;
  bool json = false;
};

// An answer's request: its own seed draws the same with n = 1.
Result<Request> request_of(const json& answer) try {
  const Error wanted{
      "no answer of `eadem generate` or `eadem score`: it needs prompt_token_ids, token_ids, seed and sampling"};
  for (const char* field : {"prompt_token_ids", "token_ids", "sampling"}) {
    if (!answer.contains(field)) return wanted;
  }
  if (!answer.contains("seed") || !answer["sampling"].is_object()) return wanted;
  json fields = answer["sampling"];
  fields["seed"] = answer["seed"];
  fields["n"] = 1;
  EADEM_ASSIGN_OR_RETURN(auto parsed, api::parse_request({{"prompt", answer["prompt_token_ids"]}}, {}));
  Request request;
  request.prompt_token_ids = std::get<std::vector<int32_t>>(std::move(parsed.prompt));
  EADEM_ASSIGN_OR_RETURN(request.sampling, api::parse_sampling(fields, {}));
  return request;
} catch (const std::exception&) {  // a field of another type
  return Error{"no answer of `eadem generate` or `eadem score`: a field has a type that they do not write"};
}

std::string text_of(const json& answer, const char* field) {
  const auto found = answer.find(field);
  return found != answer.end() && found->is_string() ? found->get<std::string>() : "none";
}

class Replay {
 public:
  Replay(const Options& options, Engine& engine, LineReader reader)
      : options_(options), engine_(engine), reader_(std::move(reader)) {}

  Result<int> run();

 private:
  bool next(Item& item);
  void judge(Item& item);
  void tell(const Item& item, const ordered_json& difference);
  void check_identity(const Item& item);
  int finish();

  const Options& options_;
  Engine& engine_;
  LineReader reader_;
  int64_t answers_ = 0, equal_ = 0, unusable_ = 0, skipped_ = 0;
  ordered_json differences_ = ordered_json::array(), faults_ = ordered_json::array();
  std::set<std::string> foreign_;  // fingerprints other than this engine's
};

// Lines that hold an error have nothing to run again.
bool Replay::next(Item& item) {
  for (std::string text; reader_.next(text);) {
    item.line = reader_.line_number();
    auto parsed = api::parse_line(text);
    if (!parsed.ok() || !parsed.value().is_object()) {
      item.error = parsed.ok() ? "not a JSON object" : parsed.error().message;
      return true;
    }
    item.original = std::move(parsed).value();
    if (item.original.contains("error") && !item.original.contains("token_ids")) {
      ++skipped_;
      continue;
    }
    auto request = request_of(item.original);
    if (request.ok()) {
      item.request = std::move(request).value();
    } else {
      item.error = request.error().message;
    }
    return true;
  }
  return false;
}

void Replay::check_identity(const Item& item) {
  const std::string fingerprint = text_of(item.original, "fingerprint");
  if (fingerprint == engine_.identity() || !foreign_.insert(fingerprint).second || options_.json) return;
  std::printf("line %" PRId64 ": made under fingerprint %s (%s), run under %s (%s)\n", item.line, fingerprint.c_str(),
              text_of(item.original, "numerics").c_str(), engine_.identity().c_str(), engine_.info().numerics.c_str());
}

void Replay::tell(const Item& item, const ordered_json& difference) {
  ordered_json entry = {{"line", item.line}};
  if (item.original.contains("id")) entry["id"] = item.original["id"];
  entry["first_difference"] = difference;
  differences_.push_back(entry);
  if (options_.json) return;
  std::printf("line %" PRId64 ": differs first at %s\n", item.line, audit::describe_difference(difference).c_str());
}

void Replay::judge(Item& item) {
  ++answers_;
  if (!item.error.empty()) {
    ++unusable_;
    faults_.push_back({{"line", item.line}, {"message", item.error}});
    if (!options_.json) std::printf("line %" PRId64 ": cannot be run: %s\n", item.line, item.error.c_str());
    return;
  }
  check_identity(item);
  const ordered_json again = api::to_json(engine_, item.request, item.answers.front());
  const ordered_json difference = audit::first_difference(item.original, again);
  if (difference.is_null()) {
    ++equal_;
  } else {
    tell(item, difference);
  }
}

int Replay::finish() {
  const bool good = equal_ == answers_ && answers_ > 0;
  if (options_.json) {
    const ordered_json all = {{"equal", good},
                              {"answers", answers_},
                              {"answers_equal", equal_},
                              {"answers_different", differences_.size()},
                              {"unusable", faults_},
                              {"skipped_errors", skipped_},
                              {"differences", differences_},
                              {"numerics", engine_.info().numerics},
                              {"isa", engine_.info().isa},
                              {"threads", engine_.info().threads},
                              {"fingerprint", engine_.identity()},
                              {"other_fingerprints", foreign_}};
    std::puts(to_line(all).c_str());
  } else {
    std::printf("%" PRId64 " answers: %" PRId64 " equal, %zu different", answers_, equal_, differences_.size());
    if (unusable_ > 0) std::printf(", %" PRId64 " cannot be run", unusable_);
    if (skipped_ > 0) std::printf(", %" PRId64 " lines without an answer", skipped_);
    std::printf(" (%s, %s)\n", engine_.info().numerics.c_str(), engine_.info().isa.c_str());
  }
  return good ? 0 : kCheckFailed;
}

Result<int> Replay::run() {
  catch_interrupts();
  Progress bar;
  EADEM_ASSIGN_OR_RETURN(
      const PipelineEnd end,
      run_pipeline(
          engine_, 2 * options_.engine.options.max_batch,
          {[this](Item& item) { return next(item); }, [this] { return reader_.ready(); }},
          [&](Item& item) -> Result<void> {
            bar.clear();
            judge(item);
            return {};
          },
          [&](uint64_t) { bar.show(reader_.bytes(), reader_.size(), std::to_string(answers_) + " answers"); }));
  bar.clear();
  if (end.interrupted) {
    print_error("interrupted after " + std::to_string(answers_) + " answers");
    return kInterrupted;
  }
  if (answers_ == 0) return Error{options_.file + " holds no answer"};
  const int status = finish();
  if (status != 0)
    print_error(std::to_string(answers_ - equal_) + " of " + std::to_string(answers_) + " answers are not equal");
  return status;
}

// The file's first answer tells the numerics that it was made under; and its answers may carry hashes of keys and
// values.
Result<void> look_ahead(const Options& options, EngineOptions& engine) {
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(options.file));
  for (std::string text; reader.next(text);) {
    if (text.find("\"kv_hash\":") != std::string::npos) engine.kv_hash = true;
    if (engine.numerics != "auto") continue;
    const json line = json::parse(text, nullptr, false);
    if (line.is_object() && line.contains("numerics") && line["numerics"].is_string())
      engine.numerics = line["numerics"].get<std::string>();
  }
  return {};
}

Result<int> run(const Options& options) {
  if (options.file == "-") return Error{"FILE must be a file: it is read twice"};
  EngineFlags flags = options.engine;
  EADEM_RETURN_IF_ERROR(look_ahead(options, flags.options));
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(options.file));
  EADEM_ASSIGN_OR_RETURN(Engine engine, flags.open());
  const auto status = Replay(options, engine, std::move(reader)).run();
  return end_run(flags, engine, status);
}

}  // namespace

Run add_replay(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional("FILE", "an output file of `eadem generate --in` or `eadem score`; its numerics are used",
                   &options->file, true);
  flags.flag("--json", "the outcome as a JSON object", &options->json);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
