// Whole files, read and written with care.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/result.h"

namespace eadem::audit {

// Errors do not name the file: they go on from its name ("is missing: ..."). Links are not followed where `plain` asks.
Result<std::string> read_whole_file(const std::filesystem::path& path, uint64_t most_bytes, bool plain = false);

// Whole or not at all; replaces what was there.
Result<void> write_whole_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace eadem::audit
