// Any bytes as a whole safetensors file, and as the header of one (with its right length, and some data), so that
// mutations reach behind the length field; and as an index.
#include <cstring>

#include "consume.h"
#include "weights/safetensors.h"

namespace {

void read_file(std::span<const std::byte> bytes) {
  const auto result = eadem::weights::read_safetensors(bytes, "fuzz.safetensors");
  if (!result.ok()) {
    eadem::fuzz::consume(result.error());
    return;
  }
  eadem::fuzz::consume(result.value(), bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_file(std::as_bytes(std::span(data, size)));

  constexpr size_t kData = 64;
  std::vector<std::byte> file(sizeof(uint64_t) + size + kData);
  const uint64_t length = size;
  std::memcpy(file.data(), &length, sizeof length);
  if (size > 0) std::memcpy(file.data() + sizeof length, data, size);
  read_file(file);

  const auto index =
      eadem::weights::read_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz.index.json");
  if (!index.ok()) eadem::fuzz::consume(index.error());
  return 0;
}
