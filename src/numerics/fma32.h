// fma32: leaves of 32 products; in each an even and an odd chain of 16 FMAs from +0, joined by one addition; leaves
// added in ascending order. Intel AMX evaluates exactly this leaf; AVX512_BF16, plain FMA and Arm's bfmlalb/bfmlalt can
// follow it.
#pragma once

#include "numerics/operand.h"
#include "numerics/version.h"

namespace eadem::numerics {

// a, b: 32 operands.
EADEM_FN float fma32_leaf(const uint16_t* a, const uint16_t* b) {
  float even = 0.0f, odd = 0.0f;
  for (int i = 0; i < kLeaf; i += 2) {
    even = fma_f32(operand_value(a[i]), operand_value(b[i]), even);
    odd = fma_f32(operand_value(a[i + 1]), operand_value(b[i + 1]), odd);
  }
  return add_f32(even, odd);
}

// acc = acc + leaf, leaves ascending. k: a multiple of 32.
EADEM_FN float fma32_chain(float acc, const uint16_t* a, const uint16_t* b, int k) {
  for (int leaf = 0; leaf < k; leaf += kLeaf) acc = add_f32(acc, fma32_leaf(a + leaf, b + leaf));
  return acc;
}

}  // namespace eadem::numerics
