#include "kernels/cuda/free/weights.h"

#include <cstring>

#include "numerics/operand.h"

namespace eadem::kernels::cuda {
namespace {

size_t row_bytes(const LinearShape& shape) { return static_cast<size_t>(shape.k_padded) * sizeof(uint16_t); }

}  // namespace

size_t free_linear_bytes(const LinearShape& shape) { return static_cast<size_t>(shape.n) * row_bytes(shape); }

void free_pack_operands(const LinearShape& shape, int n, const uint16_t* operands, std::byte* weights) {
  std::memcpy(weights + static_cast<size_t>(n) * row_bytes(shape), operands, row_bytes(shape));
}

void free_pack_int8(const LinearShape& shape, int n, const int8_t* q, const float* scale, const float* minimum,
                    std::byte* weights) {
  auto* const row = reinterpret_cast<uint16_t*>(weights + static_cast<size_t>(n) * row_bytes(shape));
  for (int k = 0; k < shape.k_padded; ++k) {
    const int g = k / shape.group;
    row[k] = numerics::bf16_operand(
        numerics::fma_f32(static_cast<float>(q[k]), scale[g], minimum != nullptr ? minimum[g] : 0.0f));
  }
}

}  // namespace eadem::kernels::cuda
