// SHA-256 (FIPS 180-4) for traces, KV hashes and golden files. Here because the engine core, and its tests cross-
// compiled for Arm, depend on nothing; weights and receipts use BLAKE3 and OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace eadem {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  template <class T>
  void update_value(const T& value) {  // little-endian bytes of a trivially copyable value
    update(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  // 64 hexadecimal digits; the object must not be updated afterwards.
  std::string hex();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t length_ = 0;
};

}  // namespace eadem
