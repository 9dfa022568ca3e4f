// Finding and reading the files of a model, with errors that name them. Private to this folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "core/result.h"

namespace eadem::weights {

// Maps a file that must be a regular one and not empty.
Result<MappedFile> map_file(const std::filesystem::path& path);

// The text of a file, or nothing where there is no such file. A file that is there but cannot be read, or is larger
// than `limit` bytes, is an error: a text is copied and parsed, which takes many times its size.
Result<std::optional<std::string>> read_text_if_present(const std::filesystem::path& path, size_t limit);

// Names in a directory that end with `ending`, sorted.
Result<std::vector<std::string>> names_ending_with(const std::filesystem::path& directory, std::string_view ending);

// What stands at a path: absent, a directory, a file (links followed), or an error (no permission, links in a circle, a
// device).
enum class PathKind { absent, directory, file };
Result<PathKind> kind_of_path(const std::filesystem::path& path);

}  // namespace eadem::weights
