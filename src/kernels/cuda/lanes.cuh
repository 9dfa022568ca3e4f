// Trees over adjacent lanes (numerics/vector_sum.h) by shuffles. Addition is commutative, so every lane of a warp ends
// with the bits of the tree's root.
#pragma once

#include <cstdint>

#include "numerics/ieee.h"

namespace eadem::kernels::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

// The tree over the values of `kThreads` neighbours of a warp, a power of two.
template <int kThreads>
__device__ __forceinline__ float tree_of_threads(float x) {
#pragma unroll
  for (int step = 1; step < kThreads; step *= 2) x = numerics::add_f32(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}

// The tree over kCount values of a thread, a power of two.
template <int kCount>
__device__ __forceinline__ float tree_of_values(const float (&x)[kCount]) {
  float sum[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = x[i];
#pragma unroll
  for (int width = kCount / 2; width >= 1; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = numerics::add_f32(sum[2 * i], sum[2 * i + 1]);
  }
  return sum[0];
}

}  // namespace eadem::kernels::cuda
