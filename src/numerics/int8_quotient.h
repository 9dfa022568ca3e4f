// int8: the quotients of a scale group without a division for each.
#pragma once

#include "numerics/operand.h"

namespace eadem::numerics {

// operand / scale, rounded once: scale is that of int8_quantise for a group of the operand, reciprocal = 1 / scale. (Or
// all three are zero.) The product is off by one bit at most, and its remainder is exact. This holds for the operands
// and scales that there are, all of which a test runs through; not for any two numbers.
EADEM_FN float int8_quotient(float operand, float scale, float reciprocal) {
  const float near = mul_f32(operand, reciprocal);
  return fma_f32(fma_f32(-near, scale, operand), reciprocal, near);
}

}  // namespace eadem::numerics
