// Repositories of the Hugging Face hub, by its HTTP interface (HF_ENDPOINT, HF_TOKEN).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "fetch/digest.h"
#include "fetch/pull.h"

namespace eadem::fetch {

// `org/name`, `org/name@revision`, `org/name/path/FILE.gguf`, `org/name@revision/path/FILE.gguf`.
struct HubName {
  std::string repository;         // "org/name"
  std::string revision = "main";  // branch, tag or commit
  std::string file;               // a GGUF file inside; empty: the safetensors
};
// Empty where the text is not such a name (then it may be a path).
std::optional<HubName> parse_hub_name(std::string_view text);

struct HubFile {
  std::string path;
  std::optional<uint64_t> size;
  std::string digest;  // may be empty
  Digest::Kind kind = Digest::Kind::kSha256;
};
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};
// The files of the answer of /api/models/... that `name` needs, with paths that stay inside the repository's folder.
Result<HubListing> select_files(const std::string& listing_json, const HubName& name);

// Where a hub model lies in the cache once it is complete.
std::filesystem::path hub_target(const std::filesystem::path& cache, const HubName& name);

Result<std::filesystem::path> pull_from_hub(const HubName& name, const PullOptions& options,
                                            const ProgressFn& progress);

}  // namespace eadem::fetch
