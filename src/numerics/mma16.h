// mma16: the function that Hopper's bf16 tensor cores evaluate, in integers. Sixteen exact products and a carry are
// aligned to the largest exponent, truncated toward zero to 25 fraction bits below it, added exactly, and truncated to
// 24 significant bits.
#pragma once

#include <cstdint>

#include "numerics/operand.h"
#include "numerics/version.h"

namespace eadem::numerics {

// A finite nonzero float32 or operand value as +-significand * 2^(exponent - 23), significand in [2^23, 2^24).
struct Unpacked {
  int64_t significand;
  int exponent;
};

EADEM_FN Unpacked unpack(float x) {
  const uint32_t bits = bits_of(x);
  const int64_t significand = (bits & 0x7fffffu) | 0x800000u;
  return {bits >> 31 ? -significand : significand, static_cast<int>(bits >> 23 & 0xffu) - 127};
}

// value * 2^-shift, truncated toward zero; any shift, also to the left.
EADEM_FN int64_t truncating_shift(int64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift >= 63) return 0;
  return value < 0 ? -(-value >> shift) : value >> shift;
}

// c + sum of a[i] * b[i], i < 16, as the tensor core adds them. a, b: operands. c: +0 or a normal float32.
EADEM_FN float mma16(float c, const uint16_t* a, const uint16_t* b) {
  constexpr int kNone = -100000;
  constexpr int kFraction = 25;
  int e = c != 0.0f ? unpack(c).exponent : kNone;
  for (int i = 0; i < kGroup; ++i) {
    if (a[i] == 0 || b[i] == 0) continue;
    const int product = unpack(operand_value(a[i])).exponent + unpack(operand_value(b[i])).exponent;
    if (product > e) e = product;
  }
  if (e == kNone) return 0.0f;
  int64_t sum = 0;
  if (c != 0.0f) {
    const Unpacked u = unpack(c);
    sum += truncating_shift(u.significand, 23 - kFraction + e - u.exponent);
  }
  for (int i = 0; i < kGroup; ++i) {
    if (a[i] == 0 || b[i] == 0) continue;
    const Unpacked x = unpack(operand_value(a[i])), y = unpack(operand_value(b[i]));
    // 24 x 24 bits, of which the low 16 + 16 are zero: the product fits 48 bits and has 46 fraction bits.
    sum += truncating_shift(x.significand * y.significand, 46 - kFraction + e - x.exponent - y.exponent);
  }
  if (sum == 0) return 0.0f;
  const bool negative = sum < 0;
  uint64_t magnitude = static_cast<uint64_t>(negative ? -sum : sum);
  int exponent = e - kFraction;  // value = magnitude * 2^exponent
  while (magnitude >= (1u << 24)) magnitude >>= 1, ++exponent;
  while (magnitude < (1u << 23)) magnitude <<= 1, --exponent;
  // exponent + 23 lies in [-125, 128): operands and carries bound it, so the result is a normal float32.
  const uint32_t bits =
      static_cast<uint32_t>(exponent + 23 + 127) << 23 | (static_cast<uint32_t>(magnitude) & 0x7fffffu);
  return float_of(negative ? bits | 0x80000000u : bits);
}

// The chain: acc = MMA16(acc, group g), groups ascending. k: a multiple of 16.
EADEM_FN float mma16_chain(float acc, const uint16_t* a, const uint16_t* b, int k) {
  for (int g = 0; g < k; g += kGroup) acc = mma16(acc, a + g, b + g);
  return acc;
}

}  // namespace eadem::numerics
