// Any bytes as config.json.
#include "consume.h"
#include "weights/json_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto result = eadem::weights::read_json_metadata({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!result.ok()) {
    eadem::fuzz::consume(result.error());
    return 0;
  }
  eadem::fuzz::consume(result.value());
  return 0;
}
