#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include "audit/corpus.h"
#include "audit/files.h"
#include "audit/log_import.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

struct Options {
  std::string action, folder;
  std::vector<std::string> files;
  std::string category, log, day, licence = "unknown";
  std::string level = "bits";
  std::vector<std::string> expressions;
  int max_tokens = 128;
  bool thaw = false, json = false;
};

std::string today() {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

ordered_json describe(const audit::Corpus& corpus) {
  ordered_json files = ordered_json::array();
  for (const audit::CorpusFile& file : corpus.files) {
    files.push_back({{"name", file.name},
                     {"category", file.category},
                     {"level", audit::name_of(file.level)},
                     {"requests", file.requests},
                     {"bytes", file.bytes},
                     {"blake3", file.blake3}});
  }
  return {{"name", corpus.name},
          {"licence", corpus.licence},
          {"frozen", corpus.frozen.empty() ? ordered_json(nullptr) : ordered_json(corpus.frozen)},
          {"digest", corpus.digest},
          {"requests", corpus.requests.size()},
          {"files", std::move(files)}};
}

void print(const Options& options, const audit::Corpus& corpus, const ordered_json& more = ordered_json::object()) {
  if (options.json) {
    ordered_json object = describe(corpus);
    object.update(more);
    std::puts(to_line(object).c_str());
    return;
  }
  for (const audit::CorpusFile& file : corpus.files) {
    std::printf("%-24s %6llu requests, compared at the level %s\n", file.name.c_str(),
                static_cast<unsigned long long>(file.requests), std::string(audit::name_of(file.level)).c_str());
  }
  std::printf("%s: %zu requests, %s, digest %s\n", corpus.name.c_str(), corpus.requests.size(),
              corpus.frozen.empty() ? "not frozen" : ("frozen on " + corpus.frozen).c_str(), corpus.digest.c_str());
}

Result<audit::CorpusAddition> addition_of(const Options& options, std::string category) {
  audit::CorpusAddition addition;
  addition.category = options.category.empty() ? std::move(category) : options.category;
  EADEM_ASSIGN_OR_RETURN(addition.level, audit::parse_level(options.level));
  addition.licence = options.licence;
  return addition;
}

Result<std::string> read(const std::string& path) {
  auto text = audit::read_whole_file(path, kMostBytes);
  return text.ok() ? std::move(text) : Error{path + " " + text.error().message};
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Result<int> add_files(const Options& options) {
  std::optional<audit::Corpus> corpus;
  for (const std::string& path : options.files) {
    EADEM_ASSIGN_OR_RETURN(const std::string text, read(path));
    EADEM_ASSIGN_OR_RETURN(auto addition, addition_of(options, std::filesystem::path(path).stem().string()));
    addition.lines = lines_of(text);
    if (addition.lines.empty()) return Error{path + " holds no request"};
    EADEM_ASSIGN_OR_RETURN(corpus, audit::add_to_corpus(options.folder, addition));
  }
  print(options, *corpus);
  return 0;
}

std::string counted(const std::map<std::string, uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text.empty() ? "none" : text;
}

Result<int> add_log(const Options& options) {
  auto redactor = audit::Redactor::create(options.expressions);
  if (!redactor.ok()) return Error{"option --redact: " + redactor.error().message};
  EADEM_ASSIGN_OR_RETURN(const std::string log, read(options.log));
  EADEM_ASSIGN_OR_RETURN(auto addition, addition_of(options, "log"));
  const audit::LogImport taken = audit::import_log(log, options.max_tokens, redactor.value());
  if (taken.lines.empty()) {
    return Error{options.log + " holds no request that can be used (left out: " + counted(taken.left_out) +
                 "): bodies are logged by `eadem serve --log-prompts`"};
  }
  addition.lines = taken.lines;
  EADEM_ASSIGN_OR_RETURN(const audit::Corpus corpus, audit::add_to_corpus(options.folder, addition));
  print(options, corpus,
        {{"taken", taken.lines.size()},
         {"repeated", taken.repeated},
         {"left_out", taken.left_out},
         {"redacted", redactor.value().counts()}});
  if (options.json) return 0;
  std::printf("%zu of %llu requests of the log taken; repeated: %llu; left out: %s\nredacted: %s\n", taken.lines.size(),
              static_cast<unsigned long long>(taken.seen), static_cast<unsigned long long>(taken.repeated),
              counted(taken.left_out).c_str(), counted(redactor.value().counts()).c_str());
  std::puts("Read the file before you freeze the corpus: what redaction does not know, it leaves.");
  return 0;
}

Result<int> add(const Options& options) {
  if (options.files.empty() == options.log.empty()) return Error{"add needs either FILE.jsonl or --from-log LOG"};
  return options.log.empty() ? add_files(options) : add_log(options);
}

Result<int> freeze(const Options& options) {
  if (options.thaw) {
    EADEM_RETURN_IF_ERROR(audit::thaw_corpus(options.folder));
    EADEM_ASSIGN_OR_RETURN(const audit::Corpus corpus, audit::read_corpus(options.folder));
    print(options, corpus);
    return 0;
  }
  EADEM_ASSIGN_OR_RETURN(const audit::Corpus corpus,
                         audit::freeze_corpus(options.folder, options.day.empty() ? today() : options.day));
  print(options, corpus);
  return 0;
}

Result<int> check(const Options& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.folder, ignored)) {
    return Error{"corpus " + options.folder + ": is no folder: name one that holds manifest.json"};
  }
  const auto corpus = audit::read_corpus(options.folder);
  if (corpus.ok()) {
    print(options, corpus.value(), {{"valid", true}});
    return 0;
  }
  if (options.json) {
    std::puts(to_line({{"valid", false}, {"error", corpus.error().message}}).c_str());
  }
  print_error(corpus.error().message);
  return kCheckFailed;
}

Result<int> run(const Options& options) {
  const bool adds = options.action == "add";
  if (!adds && !(options.files.empty() && options.log.empty() && options.category.empty())) {
    return Error{"FILE, --from-log and --category go with `eadem corpus add`"};
  }
  if (options.action != "freeze" && (options.thaw || !options.day.empty())) {
    return Error{"--thaw and --day go with `eadem corpus freeze`"};
  }
  if (options.log.empty() && !options.expressions.empty()) return Error{"--redact goes with --from-log"};
  if (adds) return add(options);
  if (options.action == "freeze") return freeze(options);
  if (options.action == "check") return check(options);
  return Error{"'" + options.action + "' is no action: use add, freeze or check (see `eadem corpus --help`)"};
}

}  // namespace

Run add_corpus(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional("ACTION", "add, freeze or check", &options->action, true);
  flags.positional("DIR", "the corpus: a folder with JSONL files and manifest.json", &options->folder, true);
  flags.positionals("FILE", "add: JSONL files, a request with an id on each line (docs/gate.md)", &options->files);
  flags.text("--category", "NAME", "add: the category, hence the file's name [that of FILE; log]", &options->category);
  flags.option("--level", "bits|tokens", "add: at which answers are compared [bits]",
               [o = options.get()](const std::string& value) -> Result<void> {
                 if (value != "bits" && value != "tokens") return Error{"bits or tokens"};
                 o->level = value;
                 return {};
               });
  flags.text("--licence", "TEXT", "add: the licence of a new corpus [unknown]", &options->licence);
  flags.text("--from-log", "LOG", "add: requests of a log of `eadem serve --log-prompts`, redacted", &options->log);
  flags.repeated("--redact", "REGEX",
                 "add: take out what this POSIX extended regular expression matches too; may be given several times",
                 [o = options.get()](const std::string& value) -> Result<void> {
                   o->expressions.push_back(value);
                   return {};
                 });
  flags.integer("--max-tokens", "add: most tokens of an answer to a request of a log [128]", 1, 1 << 20,
                &options->max_tokens);
  flags.text("--day", "DAY", "freeze: the day that the manifest tells, as 2026-11-29 [today]", &options->day);
  flags.flag("--thaw", "freeze: let a frozen corpus change again", &options->thaw);
  flags.flag("--json", "the corpus as a JSON object", &options->json);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
