#include "audit/corpus.h"

#include <filesystem>
#include <functional>
#include <set>
#include <span>

#include "api/request_json.h"
#include "audit/corpus_manifest.h"
#include "audit/files.h"
#include "core/embedded_file.h"
#include "text/blake3.h"

namespace eadem::audit {

std::span<const EmbeddedFile> default_corpus_files();  // corpus/default

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// The bytes of a file of the corpus. Errors say what to do, without the file's name.
using Opener = std::function<Result<std::string>(const std::string& name)>;

std::string hash_of(std::string_view bytes) {
  text::Blake3 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

Result<void> read_lines(const CorpusFile& file, std::string_view bytes, std::set<std::string>& ids, Corpus& corpus) {
  int64_t number = 0;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = file.name + ", line " + std::to_string(number) + ": ";
    auto request = parse_corpus_line(line);
    if (!request.ok()) return Error{where + request.error().message};
    if (!ids.insert(request.value().id).second) {
      return Error{where + "the id '" + request.value().id + "' stands there twice in this corpus: give it another"};
    }
    if (corpus.requests.size() == kMostCorpusRequests) {
      return Error{"more than " + std::to_string(kMostCorpusRequests) + " requests: split the corpus"};
    }
    request.value().category = file.category;
    request.value().level = file.level;
    corpus.requests.push_back(std::move(request).value());
  }
  return {};
}

Result<void> read_file(const Opener& open, CorpusFile& file, bool frozen, std::set<std::string>& ids, Corpus& corpus) {
  auto bytes = open(file.name);
  if (!bytes.ok()) return Error{file.name + " " + bytes.error().message};
  const std::string digest = hash_of(bytes.value());
  if (frozen && (digest != file.blake3 || bytes.value().size() != file.bytes)) {
    return Error{file.name + " was changed after the freeze: its BLAKE3 is " + digest + ", the manifest says " +
                 file.blake3 + "; restore it, or thaw the corpus and freeze it again"};
  }
  const size_t before = corpus.requests.size();
  EADEM_RETURN_IF_ERROR(read_lines(file, bytes.value(), ids, corpus));
  const uint64_t count = corpus.requests.size() - before;
  if (count == 0) return Error{file.name + " holds no request: add one, or take it out of the manifest"};
  if (frozen && count != file.requests) {
    return Error{file.name + " holds " + std::to_string(count) + " requests, the manifest says " +
                 std::to_string(file.requests)};
  }
  file.requests = count;
  file.bytes = bytes.value().size();
  file.blake3 = digest;
  return {};
}

Result<Corpus> read_all(std::string_view manifest, const Opener& open) {
  auto parsed = parse_manifest(manifest);
  if (!parsed.ok()) return Error{std::string(kCorpusManifest) + ": " + parsed.error().message};
  Corpus corpus = std::move(parsed).value();
  std::set<std::string> ids;
  std::vector<CorpusFile> files = std::move(corpus.files);
  for (CorpusFile& file : files) EADEM_RETURN_IF_ERROR(read_file(open, file, !corpus.frozen.empty(), ids, corpus));
  corpus.files = std::move(files);
  if (corpus.requests.empty()) return Error{"it holds no request: `eadem corpus add` adds some"};
  corpus.digest = digest_of(corpus);
  return corpus;
}

Result<std::string> read_regular(const fs::path& path, uint64_t most) { return read_whole_file(path, most, true); }

// JSONL that the manifest does not name would look as if it counted.
Result<void> check_strays(const fs::path& folder, const Corpus& corpus) {
  std::set<std::string> known;
  for (const CorpusFile& file : corpus.files) known.insert(file.name);
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".jsonl") && known.count(name) == 0) {
      return Error{name + " is not in the manifest: add it with `eadem corpus add`, or move it elsewhere"};
    }
  }
  if (fault) return Error{"cannot be listed: " + fault.message()};
  return {};
}

Error about(const std::string& folder, const Error& error) { return Error{"corpus " + folder + ": " + error.message}; }

Result<Corpus> read_folder(const std::string& folder) {
  constexpr uint64_t kMostManifestBytes = uint64_t{1} << 20;
  const fs::path path(folder);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return Error{"is no folder: name one that holds manifest.json"};
  auto manifest = read_regular(path / kCorpusManifest, kMostManifestBytes);
  if (!manifest.ok()) return Error{std::string(kCorpusManifest) + " " + manifest.error().message};
  EADEM_ASSIGN_OR_RETURN(Corpus corpus, read_all(manifest.value(), [&](const std::string& name) {
                           return read_regular(path / name, kMostCorpusBytes);
                         }));
  EADEM_RETURN_IF_ERROR(check_strays(path, corpus));
  return corpus;
}

Result<std::string> embedded(std::string_view name) {
  for (const EmbeddedFile& file : default_corpus_files()) {
    if (file.name == name) return std::string(file.bytes);
  }
  return Error{"is missing"};
}

// The corpus as its folder has it, or a new one.
Result<Corpus> open_to_change(const std::string& folder, const CorpusAddition& addition) {
  const fs::path path(folder);
  std::error_code fault;
  if (!fs::exists(path / kCorpusManifest)) {
    fs::create_directories(path, fault);
    if (fault) return Error{"cannot be made: " + fault.message()};
    Corpus corpus;
    corpus.name = fs::weakly_canonical(path, fault).filename().string();
    if (!is_plain_name(corpus.name)) return Error{"its folder's name must be letters, digits, '.', '_' and '-'"};
    corpus.licence = addition.licence;
    EADEM_RETURN_IF_ERROR(check_strays(path, corpus));
    return corpus;
  }
  EADEM_ASSIGN_OR_RETURN(Corpus corpus, read_folder(folder));
  if (!corpus.frozen.empty()) {
    return Error{"it is frozen since " + corpus.frozen + ": `eadem corpus freeze --thaw` lets it change again"};
  }
  return corpus;
}

Result<CorpusFile*> file_of(Corpus& corpus, const CorpusAddition& addition) {
  const std::string name = addition.category + ".jsonl";
  for (CorpusFile& file : corpus.files) {
    if (file.name != name) continue;
    if (file.level != addition.level || file.category != addition.category) {
      return Error{name + " is compared at the level " + std::string(name_of(file.level)) +
                   ": choose that, or another category"};
    }
    return &file;
  }
  if (corpus.files.size() == kMostCorpusFiles) return Error{"it has the most files that a corpus may have"};
  corpus.files.push_back({.name = name, .category = addition.category, .level = addition.level, .blake3 = {}});
  return &corpus.files.back();
}

Result<Corpus> add(const std::string& folder, const CorpusAddition& addition) {
  if (!is_plain_name(addition.category) || addition.category.size() > 64) {
    return Error{"the category '" + addition.category + "' must be letters, digits, '.', '_' and '-'"};
  }
  EADEM_ASSIGN_OR_RETURN(Corpus corpus, open_to_change(folder, addition));
  EADEM_ASSIGN_OR_RETURN(CorpusFile * file, file_of(corpus, addition));
  const fs::path path = fs::path(folder) / file->name;
  std::string bytes;
  if (file->requests > 0) {
    EADEM_ASSIGN_OR_RETURN(bytes, read_regular(path, kMostCorpusBytes));
    if (!bytes.empty() && bytes.back() != '\n') bytes += '\n';
  }
  for (const std::string& line : addition.lines) bytes += line + "\n";
  if (bytes.size() > kMostCorpusBytes) return Error{file->name + " would be too large: use another category"};
  const std::string manifest = manifest_text(corpus);
  const std::string name = file->name;
  // What would be there is read before any of it is.
  EADEM_ASSIGN_OR_RETURN(Corpus would, read_all(manifest, [&](const std::string& wanted) -> Result<std::string> {
                           if (wanted == name) return bytes;
                           return read_regular(fs::path(folder) / wanted, kMostCorpusBytes);
                         }));
  EADEM_RETURN_IF_ERROR(write_whole_file(path, bytes));
  EADEM_RETURN_IF_ERROR(write_whole_file(fs::path(folder) / kCorpusManifest, manifest));
  return would;
}

}  // namespace

Result<Corpus> read_corpus(const std::string& folder) {
  auto corpus = read_folder(folder);
  return corpus.ok() ? std::move(corpus) : about(folder, corpus.error());
}

const Corpus& default_corpus() {
  static const Corpus corpus = [] {
    const auto manifest = embedded(kCorpusManifest);
    auto read = read_all(manifest.value(), embedded);
    EADEM_CHECK(read.ok());
    return std::move(read).value();
  }();
  return corpus;
}

Result<CorpusRequest> parse_corpus_line(std::string_view line) {
  CorpusRequest request;
  EADEM_ASSIGN_OR_RETURN(request.request, api::parse_line(line));
  EADEM_ASSIGN_OR_RETURN(const api::ParsedRequest parsed, api::parse_request(request.request, {}));
  if (!is_plain_name(parsed.id)) {
    return Error{"field 'id' must be 1 to 128 letters, digits, '.', '_' and '-', not beginning with a '.'"};
  }
  if (parsed.sampling.temperature != 0.0f && !parsed.sampling.seed) {
    return Error{"it draws at random without a 'seed': add one, or set 'temperature' to 0"};
  }
  if (parsed.sampling.max_tokens < 1) return Error{"field 'max_tokens' must be at least 1: answers are compared"};
  request.id = parsed.id;
  request.request.erase("id");
  return request;
}

Result<Request> to_request(const Engine& engine, const CorpusRequest& request) {
  EADEM_ASSIGN_OR_RETURN(api::ParsedRequest parsed, api::parse_request(request.request, {}));
  EADEM_ASSIGN_OR_RETURN(Request resolved, api::resolve(engine, std::move(parsed)));
  resolved.id = request.id;
  return resolved;
}

Result<Corpus> add_to_corpus(const std::string& folder, const CorpusAddition& addition) {
  auto corpus = add(folder, addition);
  return corpus.ok() ? std::move(corpus) : about(folder, corpus.error());
}

Result<Corpus> freeze_corpus(const std::string& folder, const std::string& day) {
  if (!is_day(day)) return Error{"the day of the freeze must be as 2026-11-29, not '" + day + "'"};
  EADEM_ASSIGN_OR_RETURN(Corpus corpus, read_corpus(folder));
  if (!corpus.frozen.empty()) return about(folder, Error{"it is frozen already, since " + corpus.frozen});
  corpus.frozen = day;
  EADEM_RETURN_IF_ERROR(write_whole_file(fs::path(folder) / kCorpusManifest, manifest_text(corpus)));
  return corpus;
}

// What is frozen and was changed must be thawed to be mended: only the manifest is read here.
Result<void> thaw_corpus(const std::string& folder) {
  auto text = read_regular(fs::path(folder) / kCorpusManifest, kMostCorpusBytes);
  if (!text.ok()) return about(folder, Error{std::string(kCorpusManifest) + " " + text.error().message});
  auto corpus = parse_manifest(text.value());
  if (!corpus.ok()) return about(folder, Error{std::string(kCorpusManifest) + ": " + corpus.error().message});
  if (corpus.value().frozen.empty()) return about(folder, Error{"it is not frozen"});
  corpus.value().frozen.clear();
  return write_whole_file(fs::path(folder) / kCorpusManifest, manifest_text(corpus.value()));
}

}  // namespace eadem::audit
