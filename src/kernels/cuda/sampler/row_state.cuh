// What the kernels of a draw hand on to each other, and how they read a row of logits.
#pragma once

#include <cstdint>

#include "kernels/cuda/lanes.cuh"
#include "kernels/device.h"
#include "numerics/attention.h"
#include "numerics/sampling.h"

namespace eadem::kernels::cuda {

inline constexpr int kScanThreads = 256;
inline constexpr int kScanElements = 8192;  // logits of a block of the scan

// What a block of the scan found in its part of a row.
struct ScanPart {
  unsigned long long first;  // order_key of the largest logit's first token
  int nan;
};

enum { kNotFinite = 1, kNan = 2 };

struct RowState {
  float max;                  // largest raw logit, never -0
  int32_t first;              // its first token
  int bad;                    // nothing can be drawn: kNotFinite or kNan
  int race;                   // whether the race is needed
  unsigned long long cutoff;  // tokens of a larger key (of logits after the temperature) are out
  unsigned long long best;    // order_key of the winner's score so far
};

__device__ __forceinline__ bool is_finite(float x) { return numerics::sub_f32(x, x) == 0.0f; }
__device__ __forceinline__ float after_temperature(float logit, float temperature) {
  return temperature == 1.0f ? logit : numerics::tempered(logit, temperature);
}
// The logit of an order_key.
__device__ __forceinline__ float logit_of_key(unsigned long long key) {
  const uint32_t ascending = ~static_cast<uint32_t>(key >> 32);
  return numerics::float_of(ascending & 0x80000000u ? ascending ^ 0x80000000u : ~ascending);
}

// Draws among more than one token; all other rows need no noise.
__device__ __forceinline__ bool needs_race(const DeviceDraw& draw) {
  return draw.forced < 0 && draw.temperature != 0.0f;
}
__device__ __forceinline__ bool cuts_count(const DeviceDraw& draw, int vocab) {
  return draw.top_k > 0 && draw.top_k < vocab;
}
__device__ __forceinline__ bool cuts_weight(const DeviceDraw& draw) { return draw.top_p < 1.0f; }

// Four neighbouring logits, -infinity past the row's end. kVector: rows lie at multiples of 16 bytes.
template <bool kVector>
__device__ __forceinline__ void load_four(const float* logits, int vocab, int i, float (&x)[4]) {
  if (kVector && i < vocab) {
    const float4 four = *reinterpret_cast<const float4*>(logits + i);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) x[j] = i + j < vocab ? logits[i + j] : numerics::kMinusInfinity;
}

// The smallest value of a block of kThreads threads, for all of them. shared: kThreads / 32 words.
template <int kThreads>
__device__ __forceinline__ unsigned long long block_min(unsigned long long x, unsigned long long* shared) {
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) x = min(x, __shfl_xor_sync(kWholeWarp, x, step));
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) x = min(x, shared[w]);
  return x;
}

}  // namespace eadem::kernels::cuda
