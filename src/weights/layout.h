// Arithmetic on sizes that a file claims, checked against overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.h"
#include "core/tensor.h"
#include "weights/message.h"

namespace eadem::weights {

// a * b, or nothing where 64 bits do not hold it.
inline std::optional<uint64_t> product(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The bytes of a tensor of this dtype and shape. `where` begins the message, "<file>: tensor <name>". Errors: a
// dimension below 1, a last dimension that is no whole number of blocks, a size beyond 63 bits.
inline Result<uint64_t> tensor_bytes(DType dtype, const Shape& shape, const std::string& where) {
  const DTypeInfo type = info(dtype);
  uint64_t elements = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 1) {
      return Error{where + " has the shape " + to_string(shape) +
                   " with a dimension below 1: " + std::string(kDamaged)};
    }
    const auto grown = product(elements, static_cast<uint64_t>(dimension));
    if (!grown)
      return Error{where + " has the shape " + to_string(shape) + ", too large for any file: " + std::string(kDamaged)};
    elements = *grown;
  }
  const uint64_t last = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  if (last % type.block != 0) {
    return Error{where + " has rows of " + std::to_string(last) + " elements, no multiple of the " +
                 std::to_string(type.block) + " of a " + std::string(type.name) + " block: " + std::string(kDamaged)};
  }
  const auto bytes = product(elements / type.block, type.bytes);
  if (!bytes || *bytes > uint64_t{INT64_MAX}) {
    return Error{where + " has the shape " + to_string(shape) + ", too large for any file: " + std::string(kDamaged)};
  }
  return *bytes;
}

}  // namespace eadem::weights
