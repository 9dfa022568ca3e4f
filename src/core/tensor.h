// A view of a tensor in a mapped model file: dtype, shape, bytes. Owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace eadem {

// Row-major, outermost dimension first: a linear layer's weight is [out features, in features].
using Shape = std::vector<int64_t>;

inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

struct TensorView {
  std::string name;  // as in the file
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  size_t bytes = 0;

  int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  // Bytes of one row; the last dimension is a whole number of blocks (checked where files are read).
  size_t row_bytes() const { return static_cast<size_t>(columns()) / info(dtype).block * info(dtype).bytes; }
  const std::byte* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes(); }
};

}  // namespace eadem
