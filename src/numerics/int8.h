// int8: exact int32 dot products inside a scale group, an fp32 FMA chain over the groups.
#pragma once

#include <cstdint>

#include "numerics/operand.h"
#include "numerics/version.h"

namespace eadem::numerics {

inline constexpr int kStoredGroup = 32;      // GGUF's Q8_0, Q4_0, Q4_1 as stored
inline constexpr int kQuantisedGroup = 128;  // weights quantised at load, where K is a multiple of it; else 32

// The scale group of weights that are quantised at load.
constexpr int quantised_group(int k) { return k % kQuantisedGroup == 0 ? kQuantisedGroup : kStoredGroup; }

// Quantises `n` operands to q = x / scale rounded to nearest even, scale = absmax / 127 (returned); all-zero: scale 0,
// q 0. One rule for activations and for weights that are quantised at load.
EADEM_FN float int8_quantise(const uint16_t* operands, int n, int8_t* q) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) {
    const float magnitude = operand_value(operands[i] & 0x7fffu);
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest == 0.0f) {
    for (int i = 0; i < n; ++i) q[i] = 0;
    return 0.0f;
  }
  const float scale = div_f32(largest, 127.0f);
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(rint_f32(div_f32(operand_value(operands[i]), scale)));
  return scale;
}

// One group's step of the chain. minimum: null unless the weights are Q4_1. sum: the sum of the group's activations q.
EADEM_FN float int8_step(float acc, int32_t dot, float x_scale, float w_scale, int32_t sum, const float* minimum) {
  acc = fma_f32(static_cast<float>(dot), mul_f32(x_scale, w_scale), acc);
  if (minimum != nullptr) acc = fma_f32(static_cast<float>(sum), mul_f32(x_scale, *minimum), acc);
  return acc;
}

}  // namespace eadem::numerics
