// What this program was built of. The values are baked in by cmake/EademBuildInfo.cmake, into one small file.
#pragma once

#include <span>
#include <string_view>

namespace eadem::contract {

// A library that the program contains or loads.
struct BuiltWith {
  std::string_view name, version, purl, licence;  // licence: an SPDX expression
};

struct BuildInfo {
  std::string_view version;
  std::string_view commit;      // 40 hexadecimal digits, with "-modified" where files differed from it; or "unknown"
  std::string_view compiler;    // e.g. "GNU 12.2.0"
  std::string_view build_type;  // e.g. "Release"
  std::string_view flags;       // what was added to the project's own: CMAKE_CXX_FLAGS and sanitizers; usually empty
  // The libraries that turn text to tokens, tokens to text and grammars to masks, by name and version
  std::string_view text_libraries;
  std::span<const BuiltWith> libraries;
};

const BuildInfo& build_info();

}  // namespace eadem::contract
