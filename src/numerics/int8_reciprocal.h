// int8: the integers of a scale group by one operation each, instead of a division.
#pragma once

#include "numerics/operand.h"

namespace eadem::numerics {

// 1.5 * 2^23: a float32 of this size is an integer, in its lowest bits.
inline constexpr float kInt8Bias = 12582912.0f;

// kInt8Bias + rint(operand / scale), for an operand of a group whose int8_reciprocal this is.
EADEM_FN float int8_biased(float operand, float reciprocal) { return fma_f32(operand, reciprocal, kInt8Bias); }

// A number near 1 / scale, scale being that of int8_quantise for a group whose largest magnitude is given: the product
// with it rounds as the rounded quotient does. Operands have eight significant bits, so there is only one quotient that
// can be taken for its neighbour's: that of half the largest, 63.5 but for the rounding of the scale. (Where the scale
// is a power of two others lie midway, and 1 / scale is exact.) This holds for the operands and scales that there are,
// all of which a test runs through; not for any two numbers.
EADEM_FN float int8_reciprocal(float largest, float scale) {
  const float reciprocal = div_f32(1.0f, scale), half = mul_f32(largest, 0.5f), near = mul_f32(half, reciprocal);
  const float quotient = fma_f32(fma_f32(-near, scale, half), reciprocal, near);  // half / scale, rounded once
  const bool upwards = quotient >= 63.5f, already = fma_f32(half, reciprocal, -63.5f) >= 0.0f;
  if (upwards == already) return reciprocal;
  return mul_f32(reciprocal, upwards ? 1.0f + 0x1p-22f : 1.0f - 0x1p-22f);
}

}  // namespace eadem::numerics
