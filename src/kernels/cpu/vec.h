// Vectors of float lanes: the one vocabulary in which the CPU kernels are written. The instruction set that a
// translation unit is compiled for decides which file below is read, so each unit has exactly one Vec, and all of it
// has internal linkage (the linker can never mix two sets). Lanes run over outputs or elements, never over the terms of
// a sum: no bit depends on kWidth.
//
//   Vec         kWidth float lanes: Vec(float), Vec::load(p), v.store(p); p needs no alignment
//   IVec        as many int32 lanes: IVec(int32_t), IVec::load(p), v.store(p)
//   Mask        as many truth values
//
// Of numerics/math.h: add sub mul div fma max lt is_nan select add_to_exponent exponent_of mantissa_of. Besides:
//   sqrt, abs, min(a, b)                    IEEE; min(a, b) = a < b ? a : b
//   eq(a, b), both(m, m), either(m, m), any(m)
//   bits_of(Vec), float_of(IVec)            the same bits
//   to_float(IVec)                          nearest even
//   to_float_truncating(IVec)               toward zero, to 24 significant bits
//   truncate(Vec)                           toward zero; |x| < 2^31
//   add sub bit_and bit_or bit_xor(IVec, IVec)
//   shift_left shift_right shift_right_logical<n>(IVec)
//   negative(IVec)                          a mask
//   multiply(IVec, uint32_t, high, low)     the halves of unsigned 64-bit products
//   expand(const uint16_t*)                 kWidth bf16 values
//   largest_magnitude(const uint16_t*)      bits of the largest of 32 bf16 values, without signs
//   store_operands(uint16_t*, Vec)          numerics::bf16_operand of each lane
//   even(IVec), odd(IVec)                   the bf16 in each lane's low and high half, as floats
//   expand_float16(const uint16_t*)         kWidth float16 values; float16_of(float): of a value that is one
//   Quads, Dot, NibbleQuads, NibbleDot      int8 dot products, see cpu/linear_int8.h; QuadWord: four int8 as one word
#pragma once

#include "kernels/kernel_set.h"
#include "numerics/ieee.h"
#include "numerics/int8.h"
#include "numerics/operand.h"

namespace eadem::kernels::cpu {
using QuadWord [[gnu::may_alias]] = int32_t;
}  // namespace eadem::kernels::cpu

#define EADEM_LANE [[gnu::always_inline]] inline  // members and operations of one or few instructions

#if defined(__AVX512F__)
#include "kernels/cpu/vec_avx512.h"
#elif defined(__AVX2__)
#include "kernels/cpu/vec_avx2.h"
#elif defined(__aarch64__)
#include "kernels/cpu/vec_neon.h"
#else
#error "no vectors for this instruction set"
#endif

namespace eadem::kernels::cpu {
namespace {

// Operations that are the same for every instruction set, made of those above.
EADEM_LANE Vec add_to_exponent(Vec p, Vec z) { return float_of(add(bits_of(p), shift_left<23>(bits_of(z)))); }
EADEM_LANE IVec exponent_bits(Vec x) { return shift_right<23>(sub(bits_of(x), IVec(0x3f2aaaab))); }
EADEM_LANE Vec exponent_of(Vec x) { return to_float(exponent_bits(x)); }
EADEM_LANE Vec mantissa_of(Vec x) { return float_of(sub(bits_of(x), shift_left<23>(exponent_bits(x)))); }
EADEM_LANE Vec abs(Vec x) { return float_of(bit_and(bits_of(x), IVec(0x7fffffff))); }
EADEM_LANE Vec even(IVec pairs) { return float_of(shift_left<16>(pairs)); }
EADEM_LANE Vec odd(IVec pairs) { return float_of(bit_and(pairs, IVec(static_cast<int32_t>(0xffff0000u)))); }
// The largest power of two that is at most |x|, and +0 for zero.
EADEM_LANE Vec power_of(Vec x) { return float_of(bit_and(bits_of(x), IVec(0x7f800000))); }

// numerics::bf16_operand, as the low half of each lane.
EADEM_LANE IVec operands_of(Vec x) {
  const Vec magnitude = abs(x);
  // 2^50 rounds to itself, so clamping may come first. A NaN's lane is the bound here, and is cleared below.
  const Vec clamped = min(magnitude, Vec(0x1p50f));
  const IVec sign = bit_and(bits_of(x), IVec(static_cast<int32_t>(0x80000000u)));
  const IVec bits = bit_or(bits_of(clamped), sign);
  const IVec tie = bit_and(shift_right_logical<16>(bits), IVec(1));
  const IVec rounded = shift_right_logical<16>(add(bits, add(tie, IVec(0x7fff))));
  const Vec zero(0.0f);
  const Vec kept = select(lt(magnitude, Vec(0x1p-50f)), zero, select(is_nan(x), zero, float_of(rounded)));
  return bits_of(kept);
}
#if !defined(__AVX512BF16__) && !defined(__AMX_BF16__)
EADEM_LANE void store_operands(uint16_t* p, Vec x) { store_low_halves(p, operands_of(x)); }
#endif

}  // namespace
}  // namespace eadem::kernels::cpu
