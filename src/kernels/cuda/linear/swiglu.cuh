// SwiGLU's operands (numerics/layer.h, numerics/operand.h) without a branch, for the gates and ups that a layer hardly
// ever leaves: no limit of exp32 is reached, no division needs more than the usual steps, nothing is NaN. Branches keep
// a thread from working at several outputs at a time, which takes twice as long as the operations.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/operand.cuh"
#include "numerics/layer.h"
#include "numerics/math.h"
#include "numerics/operand.h"

namespace eadem::kernels::cuda {

// A float whose exponential meets none of exp32's limits.
struct Unlimited {
  float v;
  Unlimited() = default;
  EADEM_DEVICE explicit Unlimited(float x) : v(x) {}
};
EADEM_DEVICE Unlimited add(Unlimited a, Unlimited b) { return Unlimited(numerics::add_f32(a.v, b.v)); }
EADEM_DEVICE Unlimited sub(Unlimited a, Unlimited b) { return Unlimited(numerics::sub_f32(a.v, b.v)); }
EADEM_DEVICE Unlimited mul(Unlimited a, Unlimited b) { return Unlimited(numerics::mul_f32(a.v, b.v)); }
EADEM_DEVICE Unlimited fma(Unlimited a, Unlimited b, Unlimited c) {
  return Unlimited(numerics::fma_f32(a.v, b.v, c.v));
}
EADEM_DEVICE bool lt(Unlimited, Unlimited) { return false; }
EADEM_DEVICE bool is_nan(Unlimited) { return false; }
EADEM_DEVICE Unlimited select(bool, Unlimited, Unlimited b) { return b; }
EADEM_DEVICE Unlimited add_to_exponent(Unlimited p, Unlimited z) {
  return Unlimited(numerics::add_to_exponent(p.v, z.v));
}

// False for NaN. Where a gate is so small (below 2^-100) that the division's steps lose bits, an up below 2^49 leaves
// the product an operand of +0 anyway.
EADEM_DEVICE bool is_plain(float gate, float up) { return (fabsf(gate) <= 80.0f) & (fabsf(up) <= 0x1p49f); }

// gate / (1 + exp(-gate)) * up. The division's steps are those of the compiler's __fdiv_rn.
EADEM_DEVICE float plain_swiglu(float gate, float up) {
  const float below = numerics::add_f32(1.0f, numerics::exp32(Unlimited(-gate)).v);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(below));
  inverse = numerics::fma_f32(inverse, numerics::fma_f32(-below, inverse, 1.0f), inverse);
  float ratio = numerics::mul_f32(gate, inverse);
  ratio = numerics::fma_f32(inverse, numerics::fma_f32(-below, ratio, gate), ratio);
  ratio = numerics::fma_f32(inverse, numerics::fma_f32(-below, ratio, gate), ratio);
  return numerics::mul_f32(ratio, up);
}

// Operands of SwiGLU, two neighbours as a word, whatever they are.
EADEM_DEVICE uint32_t gated_pair(const float* gates, const float* ups, bool& good) {
  const float first = numerics::swiglu(gates[0], ups[0]), second = numerics::swiglu(gates[1], ups[1]);
  good &= !numerics::is_nan(first) && !numerics::is_nan(second);
  return operand_pair(first, second);
}

// Operands of 2 * kCount outputs of a row; word i from gates[4 i], gates[4 i + 1] and their ups. good: none is NaN.
template <int kCount>
EADEM_DEVICE void gated_row(const float* gates, const float* ups, uint32_t (&words)[kCount], bool& good) {
  bool plain = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float *g = gates + 4 * i, *u = ups + 4 * i;
    plain &= is_plain(g[0], u[0]) & is_plain(g[1], u[1]);
    words[i] = operand_pair(plain_swiglu(g[0], u[0]), plain_swiglu(g[1], u[1]));
  }
  if (plain) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) words[i] = gated_pair(gates + 4 * i, ups + 4 * i, good);
}

}  // namespace eadem::kernels::cuda
