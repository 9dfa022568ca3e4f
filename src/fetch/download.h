// One file from a URL to a path: resumed where an earlier attempt stopped, checked, and only then given its name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fetch/digest.h"
#include "fetch/pull.h"

namespace eadem::fetch {

struct Download {
  std::string url;
  std::vector<std::string> headers;
  std::filesystem::path target;  // `target`.part and `target`.part.etag stand beside it until all is checked
  std::optional<uint64_t> size;  // as the index says
  std::string digest;            // lower-case hexadecimal; empty: taken from the entity tag where that is a digest
  Digest::Kind digest_kind = Digest::Kind::kSha256;
  std::string remedy;  // what to do about a wrong digest
};

// Progress over several files.
struct Meter {
  const ProgressFn& report;
  uint64_t done = 0;
  uint64_t total = 0;
  bool tick(std::string_view stage, std::string_view file, uint64_t bytes);
};

Result<void> download(const Download& what, const PullOptions& options, Meter& meter);

// Only one process may write into `folder` at once; the lock goes with the object.
class FolderLock {
 public:
  static Result<FolderLock> take(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// A file that is being written; every fault names the path.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::filesystem::path& path, bool append);
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> close();  // bytes are on the disk afterwards

 private:
  OutputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Result<void> fault(const char* verb) const;
  std::filesystem::path path_;
  int descriptor_;
};

Result<void> make_folders(const std::filesystem::path& path);
Result<void> rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace eadem::fetch
