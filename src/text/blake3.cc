#include "text/blake3.h"

#include "text/c_api.h"

namespace eadem::text {

Blake3::Blake3() : handle_(eadem_blake3_new()) {}

void Blake3::Free::operator()(EademBlake3* hasher) const { eadem_blake3_free(hasher); }

void Blake3::update(std::string_view bytes) { eadem_blake3_update(handle_.get(), to_bytes(bytes)); }

Blake3::Digest Blake3::digest() const {
  Digest digest;
  eadem_blake3_digest(handle_.get(), digest.data());
  return digest;
}

std::string Blake3::hex_digest() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : digest()) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace eadem::text
