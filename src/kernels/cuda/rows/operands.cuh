// How the kernels over rows read and write neighbouring elements.
#pragma once

#include <cstdint>

#include "kernels/cuda/operand.cuh"
#include "numerics/math.h"

namespace eadem::kernels::cuda {

// kCount neighbouring elements as one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T x[kCount];
};

// kCount operands, 1 or even, as one access.
template <int kCount>
struct Operands : Pack<uint32_t, kCount / 2> {};
template <>
struct Operands<1> : Pack<uint16_t, 1> {};

// Numbers as operands; `good` becomes false where one is NaN.
template <int kCount>
__device__ __forceinline__ Operands<kCount> operands_of(const float (&x)[kCount], bool& good) {
  Operands<kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) good &= !numerics::is_nan(x[i]);
  if constexpr (kCount == 1) {
    out.x[0] = static_cast<uint16_t>(operand_pair(x[0], 0.0f));
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) out.x[i / 2] = operand_pair(x[i], x[i + 1]);
  }
  return out;
}

// The same, stored; false where one is NaN.
template <int kCount>
__device__ __forceinline__ bool store_operands(const float (&x)[kCount], uint16_t* y) {
  bool good = true;
  *reinterpret_cast<Operands<kCount>*>(y) = operands_of(x, good);
  return good;
}

}  // namespace eadem::kernels::cuda
