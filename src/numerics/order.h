// The sampler's order of tokens, and top-p in integers, so that a sum of weights is exact in any order of addition.
#pragma once

#include <cstdint>

#include "numerics/ieee.h"

namespace eadem::numerics {

/// The place of a token in the total order (logit descending, token id ascending) as one integer: the lower key comes
/// first. +0 and -0 are one logit; a NaN comes after everything else, by its id.
EADEM_FN std::uint64_t order_key(float logit, std::uint32_t token) {
  const std::uint32_t bits = bits_of(add_f32(logit, 0.0f));  // -0 becomes +0
  const std::uint32_t ascending = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
  const std::uint32_t descending = logit == logit ? ~ascending : 0xffffffffu;
  return (static_cast<std::uint64_t>(descending) << 32) | token;
}

/// The token of a key.
EADEM_FN std::uint32_t token_of_key(std::uint64_t key) { return static_cast<std::uint32_t>(key); }

/// True where (logit a, token a) comes before (logit b, token b).
EADEM_FN bool comes_before(float logit_a, std::uint32_t token_a, float logit_b, std::uint32_t token_b) {
  return order_key(logit_a, token_a) < order_key(logit_b, token_b);
}

/// A token's weight in top-p: rint(exp_of_distance * 2^31), where exp_of_distance = exp(l - max) is in [0, 1].
EADEM_FN std::uint64_t top_p_weight(float exp_of_distance) {
  return static_cast<std::uint64_t>(rint_f32(mul_f32(exp_of_distance, 0x1p31f)));
}

/// ceil(p * total) of the exact product, for 0 < p <= 1 and total < 2^62: the sum that top-p's prefix must reach.
EADEM_FN std::uint64_t top_p_threshold(float p, std::uint64_t total) {
  const std::uint32_t exponent = (bits_of(p) >> 23) & 0xff;
  const std::uint64_t significand = (bits_of(p) & 0x7fffffu) | (exponent ? 0x800000u : 0u);
  const std::uint32_t shift = 150 - (exponent ? exponent : 1u);  // p = significand * 2^-shift, shift >= 23
  const std::uint64_t low_product = significand * (total & 0xffffffffu);
  const std::uint64_t middle = significand * (total >> 32) + (low_product >> 32);
  const std::uint64_t low = (middle << 32) | (low_product & 0xffffffffu);  // the product is high * 2^64 + low
  const std::uint64_t high = middle >> 32;
  if (shift >= 128) return high | low ? 1 : 0;
  if (shift >= 64) {
    const std::uint32_t rest = shift - 64;
    const std::uint64_t floor = high >> rest;
    return floor + ((high & ((std::uint64_t{1} << rest) - 1)) | low ? 1 : 0);
  }
  const std::uint64_t floor = (high << (64 - shift)) | (low >> shift);
  return floor + (low & ((std::uint64_t{1} << shift) - 1) ? 1 : 0);
}

}  // namespace eadem::numerics
