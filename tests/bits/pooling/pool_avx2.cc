// Pooling with the compiler flags of this set (CMakeLists.txt).
#include "bits/pooling/pool.h"
#include "numerics/pooling.h"

namespace eadem::test::avx2 {

void pool(const uint16_t* x, int64_t rows, int n, double* sum, float* out) {
  for (int64_t row = 0; row < rows; ++row) numerics::pool_row(sum, x + row * n, n);
  numerics::pool_finish(sum, rows, n, out);
}

}  // namespace eadem::test::avx2
