#include "audit/files.h"

#include <fstream>

namespace eadem::audit {

namespace fs = std::filesystem;

Result<std::string> read_whole_file(const fs::path& path, uint64_t most_bytes, bool plain) {
  std::error_code fault;
  const fs::file_status status = plain ? fs::symlink_status(path, fault) : fs::status(path, fault);
  if (status.type() == fs::file_type::not_found) return Error{"is missing: check the name, or restore it"};
  if (status.type() == fs::file_type::none) return Error{"cannot be read: " + fault.message()};
  if (status.type() != fs::file_type::regular) return Error{"is no plain file: put the file itself there"};
  const uintmax_t size = fs::file_size(path, fault);
  if (fault) return Error{"cannot be read: " + fault.message()};
  if (size > most_bytes) return Error{"is larger than " + std::to_string(most_bytes >> 20) + " MiB: split it"};
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file || (size > 0 && !file.read(bytes.data(), static_cast<std::streamsize>(size)))) {
    return Error{"cannot be read: check its permissions"};
  }
  return bytes;
}

Result<void> write_whole_file(const fs::path& path, const std::string& bytes) {
  const fs::path half = path.string() + ".part";
  std::ofstream file(half, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  std::error_code fault;
  if (file) fs::rename(half, path, fault);
  if (file && !fault) return {};
  std::error_code ignored;
  fs::remove(half, ignored);
  return Error{"cannot write " + path.string() + ": check the folder, its permissions and the disk"};
}

}  // namespace eadem::audit
