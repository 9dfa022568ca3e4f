#include "ceilings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

namespace eadem::bench {
namespace {

constexpr size_t kAhead = 1024;  // bytes asked for ahead, as the kernels do

#if defined(__x86_64__)

__attribute__((target("avx512f"))) float fma512(int64_t steps) {
  __m512 acc[kChains];
  float start = 0.0f;  // all different, or the compiler would keep one chain for all
  for (auto& a : acc) a = _mm512_set1_ps(start += 1.0f);
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, y);
    asm volatile("");  // keeps the loop: nothing of it may be hoisted or dropped
  }
  __m512 sum = acc[0];
  for (const auto& a : acc) sum = _mm512_add_ps(sum, a);
  return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2,fma"))) float fma256(int64_t steps) {
  __m256 acc[kChains / 2];
  float start = 0.0f;
  for (auto& a : acc) a = _mm256_set1_ps(start += 1.0f);
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int64_t i = 0; i < 2 * steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, y);
    asm volatile("");  // keeps the loop: nothing of it may be hoisted or dropped
  }
  __m256 sum = acc[0];
  for (const auto& a : acc) sum = _mm256_add_ps(sum, a);
  return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx2"))) uint64_t read256(const std::byte* data, size_t bytes) {
  __m256i acc[8] = {};
  for (size_t i = 0; i < bytes; i += 256) {
    for (size_t j = 0; j < 256; j += 64) __builtin_prefetch(data + i + j + kAhead);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) {
      acc[j] = _mm256_xor_si256(acc[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 32 * j)));
    }
  }
  for (size_t j = 1; j < 8; ++j) acc[0] = _mm256_xor_si256(acc[0], acc[j]);
  return static_cast<uint64_t>(_mm256_extract_epi64(acc[0], 0));
}

#else

float fma128(int64_t steps) {
  float32x4_t acc[kChains];
  float start = 0.0f;
  for (auto& a : acc) a = vdupq_n_f32(start += 1.0f);
  const float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (auto& a : acc) a = vfmaq_f32(y, a, x);
    asm volatile("");  // keeps the loop: nothing of it may be hoisted or dropped
  }
  float32x4_t sum = acc[0];
  for (const auto& a : acc) sum = vaddq_f32(sum, a);
  return vaddvq_f32(sum);
}

#endif

}  // namespace

#if defined(__x86_64__)
int fma_lanes() { return __builtin_cpu_supports("avx512f") ? 16 : 8; }
float run_fma(int lanes, int64_t steps) { return lanes == 16 ? fma512(steps) : fma256(steps); }
uint64_t read_all(const std::byte* data, size_t bytes) { return read256(data, bytes); }
#else
int fma_lanes() { return 4; }
float run_fma(int, int64_t steps) { return fma128(steps); }
uint64_t read_all(const std::byte* data, size_t bytes) {
  uint64x2_t acc[8] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    for (size_t j = 0; j < 128; j += 64) __builtin_prefetch(data + i + j + kAhead);
    for (size_t j = 0; j < 8; ++j)
      acc[j] = veorq_u64(acc[j], vld1q_u64(reinterpret_cast<const uint64_t*>(data + i + 16 * j)));
  }
  for (size_t j = 1; j < 8; ++j) acc[0] = veorq_u64(acc[0], acc[j]);
  return vgetq_lane_u64(acc[0], 0);
}
#endif

}  // namespace eadem::bench
