// The numbers that GGUF gives to value types and tensor types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace eadem::weights {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// The element type of a tensor type that this engine reads; nothing for all others.
std::optional<DType> gguf_dtype(uint32_t type);
// The format's name of a tensor type, or its number where it has none.
std::string gguf_type_name(uint32_t type);

}  // namespace eadem::weights
