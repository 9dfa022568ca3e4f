// numerics/pooling.h over whole matrices, as each instruction set's compiler flags make it.
#pragma once

#include <cstdint>

namespace eadem::test {

// x: operands [rows][n]; sum: scratch [n], zeros; out: [n].
#define EADEM_TEST_SET(set)                                                   \
  namespace set {                                                             \
  void pool(const uint16_t* x, int64_t rows, int n, double* sum, float* out); \
  }
EADEM_TEST_SET(baseline)
EADEM_TEST_SET(avx2)
EADEM_TEST_SET(avx512)
#undef EADEM_TEST_SET

}  // namespace eadem::test
