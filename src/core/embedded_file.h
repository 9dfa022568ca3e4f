// A file kept in the program itself; cmake/EademEmbed.cmake makes the function that lists a folder's.
#pragma once

#include <string_view>

namespace eadem {

struct EmbeddedFile {
  std::string_view name;    // within its folder
  std::string_view sha256;  // 64 hexadecimal digits
  std::string_view bytes;
};

}  // namespace eadem
