// bf16 operands: what linear layers and attention multiply. The range 2^-50 ... 2^50 keeps every product a multiple of
// 2^-114, so no chain ever meets a subnormal, an infinity or -0, and flush-to-zero hardware cannot matter.
#pragma once

#include <cstdint>

#include "numerics/math.h"

namespace eadem::numerics {

// An operand's float32 value, exactly.
EADEM_FN float operand_value(uint16_t operand) { return float_of(static_cast<uint32_t>(operand) << 16); }

// Rounds x to an operand: |x| < 2^-50 and -0 become +0, |x| > 2^50 and infinities +-2^50, NaN +0 (and the caller,
// who asks is_nan, fails that row's request); else nearest even.
// The float32 x decides, before rounding.
EADEM_FN uint16_t bf16_operand(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u || magnitude < bits_of(0x1p-50f)) return 0;
  if (magnitude > bits_of(0x1p50f)) return static_cast<uint16_t>(((bits & 0x80000000u) | bits_of(0x1p50f)) >> 16);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace eadem::numerics
