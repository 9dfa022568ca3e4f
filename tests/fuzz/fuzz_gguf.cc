// Any bytes as a GGUF file.
#include "consume.h"
#include "weights/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto result = eadem::weights::read_gguf(bytes, "fuzz.gguf");
  if (!result.ok()) {
    eadem::fuzz::consume(result.error());
    return 0;
  }
  eadem::fuzz::consume(result.value().metadata);
  eadem::fuzz::consume(result.value().tensors, bytes);
  return 0;
}
