#include "cli/batch.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "api/request_json.h"
#include "cli/command.h"
#include "cli/jsonl.h"
#include "cli/pipeline.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The id of a line, where it has one that can be repeated.
std::string id_of(const ordered_json& line) {
  const auto found = line.is_object() ? line.find("id") : line.end();
  return line.is_object() && found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Item read_item(const BatchJob& job, const std::string& text, int64_t number) {
  Item item;
  item.line = number;
  auto line = api::parse_line(text);
  if (!line.ok()) {
    item.error = line.error().message;
    return item;
  }
  item.id = id_of(line.value());
  auto request = job.prepare(std::move(line).value());
  if (request.ok()) {
    item.request = std::move(request).value();
  } else {
    item.error = request.error().message;
  }
  return item;
}

// What an earlier run left in the output file.
struct Kept {
  uint64_t bytes = 0;  // up to the end of the last input line whose answers are all there
  int64_t failed = 0;
};

constexpr std::string_view kLineBegins = "{\"line\":";
constexpr int64_t kMaxAnswers = 1024;  // n of a request

// Finds where whole answers end. Only the last line may be torn.
Result<Kept> scan(const std::string& path) {
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(path));
  const Error foreign{path +
                      " holds something else than answers of this command: name another file, or use --overwrite"};
  Kept kept;
  int64_t line = 0, wanted = 0, seen = 0;
  for (std::string text; reader.next(text);) {
    const json entry = json::parse(text, nullptr, false);
    if (!reader.ended_by_newline()) {
      // Torn: cut off where it began, if it can be the beginning of a line of ours.
      if (text.starts_with(kLineBegins) || kLineBegins.starts_with(text)) break;
      return foreign;
    }
    const bool answer = entry.is_object() && entry.contains("sampling") && entry["sampling"].is_object() &&
                        entry["sampling"].value("n", json(1)).is_number_integer();
    if (!entry.is_object() || !entry.contains("line") || !entry["line"].is_number_integer() ||
        !(answer || entry.contains("error"))) {
      return foreign;
    }
    const auto number = entry["line"].get<int64_t>();
    if (seen == wanted ? number <= line : number != line) return foreign;
    if (seen == wanted) {
      seen = 0;
      wanted = answer ? entry["sampling"].value("n", int64_t{1}) : 1;
      if (wanted < 1 || wanted > kMaxAnswers) return foreign;
      line = number;
    }
    if (++seen == wanted) {
      kept.bytes = reader.bytes();
      if (!answer) ++kept.failed;
    }
  }
  return kept;
}

class Batch {
 public:
  Batch(Engine& engine, const BatchJob& job, LineReader in, LineWriter out)
      : engine_(engine), job_(job), in_(std::move(in)), out_(std::move(out)) {}

  Result<void> resume();
  Result<int> run(int max_batch);

 private:
  Result<void> verify(const ordered_json& kept);
  bool next(Item& item);
  Result<void> write(Item& item);
  Result<int> finish(const PipelineEnd& end);

  Engine& engine_;
  const BatchJob& job_;
  LineReader in_;
  LineWriter out_;
  int64_t failed_ = 0, last_written_ = 0, lines_ = 0;
};

// The input is read along with what is kept, so that an output of another input, model or option is refused.
Result<void> Batch::resume() {
  const std::string& path = job_.files.out;
  std::error_code ignored;
  if (job_.files.overwrite || !std::filesystem::is_regular_file(path, ignored)) return out_.keep(0);
  EADEM_ASSIGN_OR_RETURN(const Kept kept, scan(path));
  EADEM_ASSIGN_OR_RETURN(LineReader old, LineReader::open(path));
  for (std::string text; old.bytes() < kept.bytes && old.next(text);) {
    const ordered_json entry = ordered_json::parse(text, nullptr, false);
    if (entry.value("index", 0) == 0) EADEM_RETURN_IF_ERROR(verify(entry));
    last_written_ = entry["line"].get<int64_t>();
  }
  failed_ = kept.failed;
  return out_.keep(kept.bytes);
}

Result<void> Batch::verify(const ordered_json& kept) {
  const auto differs = [&](const std::string& what) {
    return Error{job_.files.out + " was written for another " + what + " (line " + kept["line"].dump() +
                 "): name another file, or use --overwrite"};
  };
  std::string text;
  if (!in_.next(text) || in_.line_number() != kept["line"].get<int64_t>()) return differs("input");
  ++lines_;
  const Item item = read_item(job_, text, in_.line_number());
  if (item.id != kept.value("id", std::string())) return differs("input");
  if (!kept.contains("sampling")) return {};  // a line that failed
  if (!item.error.empty() || ordered_json(item.request.prompt_token_ids) != kept["prompt_token_ids"])
    return differs("input");
  if (kept.value("fingerprint", std::string()) != engine_.identity()) return differs("model or numerics");
  return json(api::to_json(item.request.sampling)) == json(kept["sampling"]) ? Result<void>() : differs("sampling");
}

bool Batch::next(Item& item) {
  std::string text;
  if (!in_.next(text)) return false;
  ++lines_;
  item = read_item(job_, text, in_.line_number());
  return true;
}

Result<void> Batch::write(Item& item) {
  ordered_json head = {{"line", item.line}};
  if (!item.id.empty()) head["id"] = item.id;
  std::string lines;
  if (!item.error.empty()) {
    ++failed_;
    head["error"] = {{"message", item.error}};
    lines = to_line(head) + "\n";
  } else {
    for (const Completion& answer : item.answers) {
      if (job_.sign) EADEM_RETURN_IF_ERROR(job_.sign(item.request, answer));
      ordered_json object = head;
      object.update(job_.render(item.request, answer));
      lines += to_line(object) + "\n";
    }
  }
  last_written_ = item.line;
  return out_.write(lines);
}

Result<int> Batch::finish(const PipelineEnd& end) {
  const std::string& out = job_.files.out;
  if (end.interrupted) {
    const std::string onward = out == "-" ? "" : "; the same command goes on from there";
    print_error("interrupted after line " + std::to_string(last_written_) + onward);
    return kInterrupted;
  }
  if (failed_ == 0) return 0;
  print_error(std::to_string(failed_) + " of " + std::to_string(lines_) + " lines failed; their errors are in " +
              (out == "-" ? "the output" : out));
  return kCheckFailed;
}

Result<int> Batch::run(int max_batch) {
  catch_interrupts();
  Progress bar;
  const auto tick = [&](uint64_t tokens) {
    bar.show(in_.bytes(), in_.size(),
             "line " + std::to_string(last_written_) + ", " +
                 std::to_string(static_cast<int64_t>(static_cast<double>(tokens) / bar.seconds())) + " tokens/s");
  };
  EADEM_ASSIGN_OR_RETURN(
      const PipelineEnd end,
      run_pipeline(
          engine_, 2 * max_batch, {[this](Item& item) { return next(item); }, [this] { return in_.ready(); }},
          [this](Item& item) { return write(item); }, tick));
  bar.clear();
  return finish(end);
}

}  // namespace

void BatchFiles::add(Flags& flags) {
  flags.text("--in", "FILE", "requests, one JSON object a line (-: stdin)", &in);
  flags.text("--out", "FILE", "where answers go; what is there is kept and gone on from (-: stdout) [-]", &out);
  flags.flag("--overwrite", "start the output file anew", &overwrite);
}

Result<int> run_batch(Engine& engine, int max_batch, const BatchJob& job) {
  std::error_code ignored;
  if (std::filesystem::equivalent(job.files.in, job.files.out, ignored)) {
    return Error{"--in and --out are the same file: " + job.files.in};
  }
  if (std::filesystem::equivalent(engine.info().path, job.files.out, ignored)) {
    return Error{"--out is the model: " + job.files.out};
  }
  EADEM_ASSIGN_OR_RETURN(LineReader in, LineReader::open(job.files.in));
  EADEM_ASSIGN_OR_RETURN(LineWriter out, LineWriter::open(job.files.out));
  Batch batch(engine, job, std::move(in), std::move(out));
  EADEM_RETURN_IF_ERROR(batch.resume());
  return batch.run(max_batch);
}

std::string to_line(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace eadem::cli
