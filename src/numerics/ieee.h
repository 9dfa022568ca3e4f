// The arithmetic that the contract may use: IEEE-754 add, sub, mul, fma, div and sqrt, rounded to nearest even, and the
// bits of a number.
//
// Each operation is one function, so that no compiler flag of a translation unit can change what it does: on a device
// the intrinsics with _rn never contract; on the host -ffp-contract=off keeps add and mul apart. fma without hardware
// support (-mfma absent) becomes a call of the C library's fma, which is correctly rounded too: slower, the same bits.
// Gradual underflow is the caller's duty (MXCSR, FPCR).
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>

#include "numerics/config.h"

namespace eadem::numerics {

static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
              "float arithmetic must be evaluated in float");  // 16: with AVX512-FP16 flags
static_assert(FLT_RADIX == 2 && FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53,
              "IEEE-754 binary32 and binary64 are required");
#if defined(__FAST_MATH__)
#error "the contract forbids -ffast-math"
#endif

#if defined(__CUDA_ARCH__)

EADEM_INLINE float add_f32(float a, float b) { return __fadd_rn(a, b); }
EADEM_INLINE float sub_f32(float a, float b) { return __fsub_rn(a, b); }
EADEM_INLINE float mul_f32(float a, float b) { return __fmul_rn(a, b); }
EADEM_INLINE float fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
EADEM_INLINE float div_f32(float a, float b) { return __fdiv_rn(a, b); }
EADEM_INLINE float sqrt_f32(float a) { return __fsqrt_rn(a); }
EADEM_INLINE double add_f64(double a, double b) { return __dadd_rn(a, b); }
EADEM_INLINE double sub_f64(double a, double b) { return __dsub_rn(a, b); }
EADEM_INLINE double mul_f64(double a, double b) { return __dmul_rn(a, b); }
EADEM_INLINE double fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
EADEM_INLINE double div_f64(double a, double b) { return __ddiv_rn(a, b); }
EADEM_INLINE double sqrt_f64(double a) { return __dsqrt_rn(a); }

#else

EADEM_INLINE float add_f32(float a, float b) { return a + b; }
EADEM_INLINE float sub_f32(float a, float b) { return a - b; }
EADEM_INLINE float mul_f32(float a, float b) { return a * b; }
EADEM_INLINE float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EADEM_INLINE float div_f32(float a, float b) { return a / b; }
EADEM_INLINE float sqrt_f32(float a) { return __builtin_sqrtf(a); }
EADEM_INLINE double add_f64(double a, double b) { return a + b; }
EADEM_INLINE double sub_f64(double a, double b) { return a - b; }
EADEM_INLINE double mul_f64(double a, double b) { return a * b; }
EADEM_INLINE double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
EADEM_INLINE double div_f64(double a, double b) { return a / b; }
EADEM_INLINE double sqrt_f64(double a) { return __builtin_sqrt(a); }

#endif

/// The bits of a number, and the number of given bits.
EADEM_INLINE std::uint32_t bits_of(float x) {
  std::uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
EADEM_INLINE std::uint64_t bits_of(double x) {
  std::uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
EADEM_INLINE float float_of(std::uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
EADEM_INLINE double double_of(std::uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/// The nearest integer, ties to even; keeps the sign of zero, and returns infinities and NaN as they are.
EADEM_INLINE float rint_f32(float x) {
  const std::uint32_t sign = bits_of(x) & 0x80000000u;
  const float a = float_of(bits_of(x) ^ sign);
  const float r = sub_f32(add_f32(a, 0x1p23f), 0x1p23f);
  return float_of(bits_of(a < 0x1p23f ? r : a) | sign);
}
EADEM_INLINE double rint_f64(double x) {
  const std::uint64_t sign = bits_of(x) & 0x8000000000000000u;
  const double a = double_of(bits_of(x) ^ sign);
  const double r = sub_f64(add_f64(a, 0x1p52), 0x1p52);
  return double_of(bits_of(a < 0x1p52 ? r : a) | sign);
}

}  // namespace eadem::numerics
