// Reads members of a zip file (APPNOTE 6.3), stored or deflated; enough for wheels. Every offset and length is checked.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/mapped_file.h"
#include "core/result.h"

namespace eadem::fetch {

struct ZipMember {
  std::string name;
  uint64_t size = 0;  // unpacked
  std::span<const std::byte> packed;
  bool deflated = false;
  uint32_t crc = 0;
};

// The one member whose name ends in `suffix`; none or several are errors. `packed` points into `file`.
Result<ZipMember> find_zip_member(const MappedFile& file, std::string_view suffix);

// Unpacks into `sink`, which may return an error; the member's size and CRC are checked.
Result<void> unpack_zip_member(const ZipMember& member,
                               const std::function<Result<void>(std::span<const std::byte>)>& sink);

}  // namespace eadem::fetch
