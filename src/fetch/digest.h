// Digests of files, by OpenSSL: SHA-256, and git's object name (SHA-1 over a header and the content) for small files of
// the hub.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/result.h"

namespace eadem::fetch {

class Digest {
 public:
  enum class Kind { kSha256, kGitBlob };
  // `size` is the length of what follows; git's object name begins with it, SHA-256 ignores it.
  Digest(Kind kind, uint64_t size);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void update(std::span<const std::byte> bytes);
  std::string hex();  // ends the digest

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The digest of a whole file; `tick(bytes)` is called as it goes on and may return false to stop.
Result<std::string> file_digest(const std::filesystem::path& path, Digest::Kind kind,
                                const std::function<bool(uint64_t)>& tick);

}  // namespace eadem::fetch
