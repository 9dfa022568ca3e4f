#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fetch/download.h"

namespace eadem::fetch {

Result<OutputFile> OutputFile::create(const std::filesystem::path& path, bool append) {
  const int mode = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
  OutputFile file(path, ::open(path.c_str(), mode, 0644));
  if (file.descriptor_ < 0) return file.fault("create").error();
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> OutputFile::fault(const char* verb) const {
  const std::string advice = errno == ENOSPC ? "; free some space, or set EADEM_CACHE to a larger disk" : "";
  return Error{"cannot " + std::string(verb) + " " + path_.string() + ": " + std::strerror(errno) + advice};
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fault("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> OutputFile::close() {
  if (::fsync(descriptor_) != 0) return fault("write");
  if (::close(std::exchange(descriptor_, -1)) != 0) return fault("write");
  return {};
}

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  EADEM_RETURN_IF_ERROR(make_folders(folder));
  const std::filesystem::path path = folder / ".lock";
  FolderLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.descriptor_ < 0) return Error{"cannot create " + path.string() + ": " + std::strerror(errno)};
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    return Error{"another process is fetching the same model (it holds " + path.string() +
                 "); wait until it has ended"};
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> make_folders(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure)
    return Error{"cannot create " + path.string() + ": " + failure.message() +
                 "; set EADEM_CACHE to a folder of yours"};
  return {};
}

Result<void> rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::rename(from, to, failure);
  if (failure) return Error{"cannot rename " + from.string() + " to " + to.string() + ": " + failure.message()};
  return {};
}

}  // namespace eadem::fetch
