#include "fetch/hub.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "fetch/download.h"
#include "fetch/http.h"

namespace eadem::fetch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

std::string endpoint() {
  std::string url = environment("HF_ENDPOINT", "https://huggingface.co");
  while (url.ends_with('/')) url.pop_back();
  return url;
}

std::vector<std::string> authorization() {
  const std::string token = environment("HF_TOKEN", "");
  if (token.empty() || token.find_first_of("\r\n") != std::string::npos) return {};
  return {"Authorization: Bearer " + token};
}

bool is_name_part(std::string_view text) {
  if (text.empty() || text.front() == '.' || text.size() > 96) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

// A path of the repository that is safe to join to a folder of ours.
bool is_safe_path(const std::string& path) {
  if (path.empty() || path.find_first_of(std::string("\\\0", 2)) != std::string::npos) return false;
  const fs::path parsed(path);
  if (parsed.is_absolute()) return false;
  return std::none_of(parsed.begin(), parsed.end(),
                      [](const fs::path& part) { return part == ".." || part == "." || part.empty(); });
}

// The part of a split GGUF file's name before "-00001-of-00003.gguf"; empty where the name has no such end.
std::string split_prefix(const std::string& file) {
  constexpr size_t kTail = sizeof "-00001-of-00003.gguf" - 1;
  if (file.size() <= kTail) return {};
  const std::string tail = file.substr(file.size() - kTail);
  const auto digits = [&](size_t from) {
    return tail.substr(from, 5).find_first_not_of("0123456789") == std::string::npos;
  };
  const bool split =
      tail[0] == '-' && digits(1) && tail.substr(6, 4) == "-of-" && digits(10) && tail.ends_with(".gguf");
  return split ? file.substr(0, file.size() - kTail) : std::string();
}

bool is_wanted(const std::string& path, const HubName& name) {
  if (!name.file.empty()) {
    const std::string prefix = split_prefix(name.file);
    return path == name.file || (!prefix.empty() && split_prefix(path) == prefix);
  }
  if (path.find('/') != std::string::npos) return false;
  if (path == "config.json" || path == "generation_config.json" || path.ends_with(".jinja")) return true;
  if (path == "special_tokens_map.json" || path == "added_tokens.json") return true;
  if (path.starts_with("tokenizer") && path.ends_with(".json")) return true;
  // Some repositories hold the same weights a second time, as their authors' own files.
  return (path.ends_with(".safetensors") && !path.starts_with("consolidated")) ||
         path == "model.safetensors.index.json";
}

HubFile hub_file(const json& entry, const std::string& path) {
  HubFile file;
  file.path = path;
  if (const auto size = entry.find("size"); size != entry.end() && size->is_number_unsigned())
    file.size = size->get<uint64_t>();
  if (const auto blob = entry.find("blobId"); blob != entry.end() && blob->is_string() && file.size) {
    file.digest = blob->get<std::string>();
    file.kind = Digest::Kind::kGitBlob;
  }
  if (const auto lfs = entry.find("lfs");
      lfs != entry.end() && lfs->is_object() && lfs->contains("sha256") && (*lfs)["sha256"].is_string()) {
    file.digest = (*lfs)["sha256"].get<std::string>();
    file.kind = Digest::Kind::kSha256;
  }
  return file;
}

Error nothing_to_load(const HubName& name, const std::vector<std::string>& gguf) {
  if (!name.file.empty()) return Error{name.repository + " has no file '" + name.file + "'; check the name"};
  if (gguf.empty())
    return Error{name.repository + " has no .safetensors and no .gguf weights, which is all that eadem reads"};
  std::string text = name.repository + " has only GGUF weights; name one: ";
  for (size_t i = 0; i < std::min<size_t>(gguf.size(), 4); ++i)
    text += (i ? ", " : "") + name.repository + "/" + gguf[i];
  return Error{text + (gguf.size() > 4 ? ", ..." : "")};
}

Result<HubListing> list_repository(const HubName& name, const PullOptions& options) {
  HttpRequest request;
  request.url = endpoint() + "/api/models/" + encode_path(name.repository) + "/revision/" + encode_path(name.revision) +
                "?blobs=true";
  request.headers = authorization();
  request.stall_seconds = options.stall_seconds;
  EADEM_ASSIGN_OR_RETURN(const TextReply reply, http_get_text(request, options.retries, options.retry_seconds));
  auto listing = select_files(reply.text, name);
  if (!listing.ok()) return Error{public_url(request.url) + ": " + listing.error().message};
  return listing;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What is complete, and of which commit, stands in a small file beside it.
fs::path revision_mark(const fs::path& target, bool folder) {
  return folder ? target / ".eadem-revision" : fs::path(target.string() + ".eadem-revision");
}

// Puts `staging` in the place of `folder`, which may hold an older revision.
Result<void> replace_folder(const fs::path& staging, const fs::path& folder) {
  std::error_code ignored;
  const fs::path old = staging.string() + ".old";
  fs::remove_all(old, ignored);
  EADEM_RETURN_IF_ERROR(make_folders(folder.parent_path()));
  if (fs::exists(folder, ignored)) EADEM_RETURN_IF_ERROR(rename_path(folder, old));
  EADEM_RETURN_IF_ERROR(rename_path(staging, folder));
  fs::remove_all(old, ignored);
  return {};
}

// Moves the parts of a GGUF model to their place, the part that names the model last.
Result<void> move_files(const HubListing& listing, const HubName& name, const fs::path& staging,
                        const fs::path& target) {
  fs::path root = target;
  for (const fs::path& part : fs::path(name.file)) root = part.empty() ? root : root.parent_path();
  std::vector<std::string> paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  std::stable_partition(paths.begin(), paths.end(), [&](const std::string& path) { return path != name.file; });
  for (const std::string& path : paths) {
    EADEM_RETURN_IF_ERROR(make_folders((root / path).parent_path()));
    EADEM_RETURN_IF_ERROR(rename_path(staging / path, root / path));
  }
  return {};
}

// Parts of this revision and of older ones; the lock stays.
void remove_parts(const fs::path& work) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(work, ignored)) {
    if (entry.path().filename() != ".lock") fs::remove_all(entry.path(), ignored);
  }
}

Result<void> download_all(const HubListing& listing, const HubName& name, const fs::path& staging,
                          const PullOptions& options, const ProgressFn& progress) {
  Meter meter{progress};
  for (const HubFile& file : listing.files) meter.total += file.size.value_or(0);
  for (const HubFile& file : listing.files) {
    Download what;
    what.url = endpoint() + "/" + encode_path(name.repository) + "/resolve/" + encode_path(listing.commit) + "/" +
               encode_path(file.path);
    what.headers = authorization();
    what.target = staging / file.path;
    what.size = file.size;
    what.digest = file.digest;
    what.digest_kind = file.kind;
    what.remedy = "; what came is damaged and was removed: pull again";
    EADEM_RETURN_IF_ERROR(download(what, options, meter));
  }
  return {};
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const size_t end = std::min(text.find('/', slash + 1), text.size());
  std::string_view repository = text.substr(0, end);
  if (const size_t at = repository.find('@'); at != std::string_view::npos) {
    name.revision = repository.substr(at + 1);
    repository = repository.substr(0, at);
    if (!is_name_part(name.revision) || at < slash) return std::nullopt;
  }
  if (!is_name_part(repository.substr(0, slash)) || !is_name_part(repository.substr(slash + 1))) return std::nullopt;
  name.repository = repository;
  if (end < text.size()) {
    name.file = text.substr(end + 1);
    if (!is_safe_path(name.file) || !name.file.ends_with(".gguf")) return std::nullopt;
  }
  return name;
}

Result<HubListing> select_files(const std::string& listing_json, const HubName& name) {
  const json document = json::parse(listing_json, nullptr, false);
  if (!document.is_object() || !document.contains("siblings") || !document["siblings"].is_array()) {
    return Error{"not the listing of a repository; check HF_ENDPOINT"};
  }
  HubListing listing;
  listing.commit = name.revision;
  if (document.contains("sha") && document["sha"].is_string()) listing.commit = document["sha"].get<std::string>();
  if (!is_name_part(listing.commit)) return Error{"the commit is not a plain name"};
  std::vector<std::string> gguf;
  bool weights = false;
  for (const json& entry : document["siblings"]) {
    if (!entry.is_object() || !entry.contains("rfilename") || !entry["rfilename"].is_string()) continue;
    const std::string path = entry["rfilename"].get<std::string>();
    if (!is_safe_path(path)) return Error{"the listing names '" + path + "', which would leave the model's folder"};
    if (path.ends_with(".gguf")) gguf.push_back(path);
    if (!is_wanted(path, name)) continue;
    weights = weights || path.ends_with(".safetensors") || path.ends_with(".gguf");
    listing.files.push_back(hub_file(entry, path));
  }
  if (!weights) return nothing_to_load(name, gguf);
  return listing;
}

fs::path hub_target(const fs::path& cache, const HubName& name) {
  return name.file.empty() ? cache / name.repository : cache / (name.repository + "@gguf") / name.file;
}

Result<fs::path> pull_from_hub(const HubName& name, const PullOptions& options, const ProgressFn& progress) {
  const fs::path target = hub_target(options.cache, name);
  std::string flat = name.repository;
  std::replace(flat.begin(), flat.end(), '/', '~');
  const fs::path work = options.cache / ".partial" / flat;
  EADEM_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::take(work));
  EADEM_ASSIGN_OR_RETURN(const HubListing listing, list_repository(name, options));
  const bool folder = name.file.empty();
  std::error_code ignored;
  const fs::path mark = revision_mark(target, folder);
  if (fs::exists(target, ignored) && read_text(mark) == listing.commit) return target;
  const fs::path staging = work / listing.commit;
  EADEM_RETURN_IF_ERROR(download_all(listing, name, staging, options, progress));
  if (folder) {
    std::ofstream(revision_mark(staging, true)) << listing.commit;
    EADEM_RETURN_IF_ERROR(replace_folder(staging, target));
  } else {
    EADEM_RETURN_IF_ERROR(move_files(listing, name, staging, target));
    std::ofstream(mark) << listing.commit;
  }
  remove_parts(work);
  return target;
}

}  // namespace eadem::fetch
