// The small steps between linear layers: RMSNorm, rotary embedding, SwiGLU.
#pragma once

#include "numerics/ieee.h"
#include "numerics/math.h"
#include "numerics/vector_sum.h"

namespace eadem::numerics {

// 1 / sqrt(sum / n + eps), the factor of RMSNorm over n elements.
EADEM_FN float rms_factor(float sum_of_squares, int n, float eps) {
  return div_f32(1.0f, sqrt_f32(add_f32(div_f32(sum_of_squares, static_cast<float>(n)), eps)));
}
EADEM_FN float rms_scale(float x, float factor, float weight) { return mul_f32(mul_f32(x, factor), weight); }

// Rotates the pair (x1, x2) of the half-split layout in place. cosine, sine: float32 roundings of the host's double
// tables.
EADEM_FN void rotate(float& x1, float& x2, float cosine, float sine) {
  const float y1 = fma_f32(x1, cosine, -mul_f32(x2, sine));
  const float y2 = fma_f32(x2, cosine, mul_f32(x1, sine));
  x1 = y1, x2 = y2;
}

EADEM_FN float swiglu(float gate, float up) { return mul_f32(div_f32(gate, add_f32(1.0f, exp32(-gate))), up); }

}  // namespace eadem::numerics
