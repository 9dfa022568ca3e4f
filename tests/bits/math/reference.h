// What the float32 functions are judged by: the C library's double functions, and MPFR where a result is close to its
// bound.
#pragma once

#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "numerics/math.h"

namespace eadem::test {

/// One function under judgement. `bound` is in units of the last place of the exact value; `flushes` tells that results
/// below 2^-126 are +0.
struct Function {
  const char* name;
  float (*ours)(float);
  double (*reference)(double);
  void (*exact)(mpfr_t result, mpfr_srcptr x);
  double bound;
  bool flushes;
};

inline double reference_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline void exact_exp(mpfr_t r, mpfr_srcptr x) { mpfr_exp(r, x, MPFR_RNDN); }
inline void exact_log(mpfr_t r, mpfr_srcptr x) { mpfr_log(r, x, MPFR_RNDN); }
inline void exact_log1p(mpfr_t r, mpfr_srcptr x) { mpfr_log1p(r, x, MPFR_RNDN); }
inline void exact_sigmoid(mpfr_t r, mpfr_srcptr x) {
  mpfr_neg(r, x, MPFR_RNDN);
  mpfr_exp(r, r, MPFR_RNDN);
  mpfr_add_ui(r, r, 1, MPFR_RNDN);
  mpfr_ui_div(r, 1, r, MPFR_RNDN);
}

inline const Function kFunctions[] = {
    {"exp", numerics::exp32<float>, std::exp, exact_exp, 1.0, true},
    {"log", numerics::log32<float>, std::log, exact_log, 1.0, false},
    {"log1p", numerics::log1p32<float>, std::log1p, exact_log1p, 1.0, false},
    {"sigmoid", numerics::sigmoid32<float>, reference_sigmoid, exact_sigmoid, 2.0, true},
};

/// The distance of two neighbouring floats at |x| (that of the smallest normal numbers below them).
inline double ulp_at(double x) {
  const std::uint64_t exponent = (numerics::bits_of(std::fabs(x)) >> 52);
  const std::uint64_t lowest = 1023 - 126;
  const std::uint64_t top = exponent < lowest ? lowest : exponent;
  return numerics::double_of((top - 23) << 52);
}

/// The error against 200-bit MPFR, in units of the last place.
inline double exact_error(const Function& function, float x, float y) {
  mpfr_t r, a;
  mpfr_init2(r, 200);
  mpfr_init2(a, 200);
  mpfr_set_flt(a, x, MPFR_RNDN);
  function.exact(r, a);
  const double unit = ulp_at(mpfr_get_d(r, MPFR_RNDZ));
  mpfr_sub_d(r, r, static_cast<double>(y), MPFR_RNDN);
  const double error = std::fabs(mpfr_get_d(r, MPFR_RNDN)) / unit;
  mpfr_clear(r);
  mpfr_clear(a);
  return error;
}

enum class Verdict { kOrdinary, kSpecial, kWrong };

/// Judges y = function(x). Special are the results that a rule fixes (NaN, infinities, the flush of exp and sigmoid
/// below 2^-126, and zero); for all others `error` is set, by MPFR (counted in `by_mpfr`) where the double reference is
/// within 2^-12 of the bound.
inline Verdict judge(const Function& function, float x, float y, double& error, std::uint64_t& by_mpfr) {
  error = 0;
  const double r = function.reference(static_cast<double>(x));
  if (r != r) return numerics::bits_of(y) == 0x7fc00000u ? Verdict::kSpecial : Verdict::kWrong;
  if (std::isinf(r) || r == 0) {
    return static_cast<double>(y) == r && std::signbit(y) == std::signbit(r) ? Verdict::kSpecial : Verdict::kWrong;
  }
  if (function.flushes && r < 0x1p-126) return numerics::bits_of(y) == 0 ? Verdict::kSpecial : Verdict::kWrong;
  if (r >= 0x1.ffffffp+127) return y == numerics::infinity() ? Verdict::kSpecial : Verdict::kWrong;
  if (!std::isfinite(y)) return Verdict::kWrong;
  error = std::fabs(static_cast<double>(y) - r) / ulp_at(r);
  if (error > function.bound - 0x1p-12) {
    ++by_mpfr;
    error = exact_error(function, x, y);
  }
  return error <= function.bound ? Verdict::kOrdinary : Verdict::kWrong;
}

}  // namespace eadem::test
