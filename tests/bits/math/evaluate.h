// The elementary functions over arrays, as each instruction set's compiler flags make them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eadem::test {

enum class FloatFunction { kExp, kLog, kLog1p, kSigmoid, kExp2p, kExp2Full, kGumbel, kSwiglu, kCount };
enum class DoubleFunction { kSin, kCos, kExp, kLog, kPow, kCount };

#define EADEM_TEST_SET(set)                                                                                 \
  namespace set {                                                                                           \
  void evaluate(FloatFunction function, const std::uint32_t* in, std::uint32_t* out, std::size_t count);    \
  void evaluate(DoubleFunction function, const double* x, const double* y, double* out, std::size_t count); \
  }
EADEM_TEST_SET(baseline)
EADEM_TEST_SET(avx2)
EADEM_TEST_SET(avx512)
#undef EADEM_TEST_SET

}  // namespace eadem::test
