// Numbers for arrays in device memory, and comparison of their bytes, made by the device.
#pragma once

#include <cstdint>

#include "bits/cuda/device_memory.h"
#include "numerics/operand.h"

namespace eadem::test {

__device__ inline uint32_t hash_of(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdULL, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL, x ^= x >> 33;
  return static_cast<uint32_t>(x);
}
// Signed, over some orders of magnitude: sums of products depend on the order of their terms.
__device__ inline float number_of(uint64_t index, uint64_t seed, float scale) {
  const uint32_t h = hash_of(index * 2 + seed * 0x9e3779b97f4a7c15ULL), e = hash_of(index * 2 + 1 + seed) % 9;
  const float mantissa = static_cast<float>(static_cast<int>(h)) * 0x1p-31f;
  return mantissa * scale * static_cast<float>(1u << e) * 0x1p-4f;
}

static __global__ void fill_floats(float* to, size_t count, uint64_t seed, float scale) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    to[i] = number_of(i, seed, scale);
  }
}
static __global__ void fill_operands(uint16_t* to, size_t count, uint64_t seed, float scale) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    to[i] = numerics::bf16_operand(number_of(i, seed, scale));
  }
}
static __global__ void count_differing(const uint32_t* x, const uint32_t* y, size_t count,
                                       unsigned long long* differing) {
  unsigned long long n = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    n += x[i] != y[i];
  }
  if (n > 0) atomicAdd(differing, n);
}

// Words of 32 bits that differ.
inline unsigned long long differing_words(const void* x, const void* y, size_t bytes) {
  const DeviceArray<unsigned long long> count(1);
  count_differing<<<256, 256>>>(static_cast<const uint32_t*>(x), static_cast<const uint32_t*>(y), bytes / 4,
                                count.data());
  return count.host()[0];
}

}  // namespace eadem::test
