// BLAKE3 digests, for identities of files and results.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct EademBlake3;

namespace eadem::text {

class Blake3 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Blake3();
  void update(std::string_view bytes);
  void update(const void* data, size_t size) { update(std::string_view(static_cast<const char*>(data), size)); }
  // Of everything so far; more may follow.
  Digest digest() const;
  std::string hex_digest() const;  // 64 lower-case hexadecimal digits

 private:
  struct Free {
    void operator()(EademBlake3* hasher) const;
  };

  std::unique_ptr<EademBlake3, Free> handle_;
};

}  // namespace eadem::text
