// A file mapped read-only. Bytes outside it cannot be named: readers check every offset against size().
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "core/result.h"

namespace eadem {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  // Tells the system that these bytes were repacked and need not stay resident.
  void release(const std::byte* begin, size_t bytes) const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::filesystem::path path_;
};

}  // namespace eadem
