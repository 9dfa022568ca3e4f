// Embeddings: final hidden states of a sequence pooled into one vector of length 1. The sum runs over positions in
// ascending order, one row after another, so that how a prompt is cut into chunks cannot show.
#pragma once

#include "numerics/operand.h"
#include "numerics/vector_sum.h"

namespace eadem::numerics {

// sum[i] = sum[i] + x[i], in double: x: operands [n], the next row; sum begins with +0.
EADEM_FN void pool_row(double* sum, const uint16_t* x, int n) {
  for (int i = 0; i < n; ++i) sum[i] = add_f64(sum[i], static_cast<double>(operand_value(x[i])));
}

// The mean of `rows` rows, rounded once to float32, then divided by its length. A vector of zeros stays one.
EADEM_FN void pool_finish(const double* sum, int64_t rows, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<float>(div_f64(sum[i], static_cast<double>(rows)));
  const float length = sqrt_f32(vector_sum_of_squares(out, n));
  if (!(length > 0.0f)) return;
  for (int i = 0; i < n; ++i) out[i] = div_f32(out[i], length);
}

}  // namespace eadem::numerics
