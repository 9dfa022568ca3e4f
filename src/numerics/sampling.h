// Arithmetic of the sampler: how a row of logits becomes a token. The order of the steps is src/sampler's; every
// operation is here.
#pragma once

#include <cstdint>

#include "numerics/math.h"
#include "numerics/rng.h"
#include "numerics/vector_sum.h"

namespace eadem::numerics {

// ---- Step 1: each logit on its own --------------------------------------------------------------------------------

EADEM_FN float biased(float logit, float bias) { return add_f32(logit, bias); }

// For a token that occurs in the prompt or in the output.
EADEM_FN float repetition_penalised(float logit, float penalty) {
  return logit > 0.0f ? div_f32(logit, penalty) : mul_f32(logit, penalty);
}

// For a token that occurs `count` >= 1 times in the output.
EADEM_FN float output_penalised(float logit, int32_t count, float frequency, float presence) {
  return sub_f32(fma_f32(-frequency, static_cast<float>(count), logit), presence);
}

EADEM_FN float tempered(float logit, float temperature) { return div_f32(logit, temperature); }

// ---- Step 2: the total order and its prefixes ---------------------------------------------------------------------

// The total order of tokens: logit descending, token id ascending. -0 and +0 are equal. No NaN.
EADEM_FN bool precedes(float logit_a, int32_t token_a, float logit_b, int32_t token_b) {
  return logit_a > logit_b || (logit_a == logit_b && token_a < token_b);
}

// e^(logit - max) in units of 2^-31: an integer of at most 2^31, so that sums are exact in any order. 0 where logit -
// max < kWeightless.
template <class V>
EADEM_INLINE V scaled_weight(V logit, V max) {
  return mul(exp32(sub(logit, max)), V(0x1p31f));
}
EADEM_FN uint32_t nucleus_weight(float logit, float max) {
  return static_cast<uint32_t>(rint_f32(scaled_weight(logit, max)));
}
EADEM_CONST float kWeightless = -22.25f;  // 2^31 * e^-22.25 = 0.47, which rounds to 0

// ceil(p * total) exactly, for a float32 p in (0, 1] and total < 2^62: p is an integer of 24 bits times a power of two.
EADEM_FN uint64_t nucleus_size(float p, uint64_t total) {
  const uint32_t bits = bits_of(p);
  const uint32_t biased_exponent = bits >> 23;  // p > 0: no sign
  const uint64_t significand = biased_exponent == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
  // p = significand * 2^-shift, shift >= 23
  const int shift = 150 - static_cast<int>(biased_exponent == 0 ? 1 : biased_exponent);
  // significand * total as high * 2^32 + low, each part below 2^64.
  const uint64_t low = significand * (total & 0xffffffffu);
  const uint64_t high = significand * (total >> 32) + (low >> 32);
  const uint64_t rest = low & 0xffffffffu;
  if (shift >= 96) return (high | rest) != 0;
  if (shift > 32) return (high >> (shift - 32)) + (((high & ((uint64_t{1} << (shift - 32)) - 1)) | rest) != 0);
  // shift is 23 ... 32: the quotient takes high whole and the upper bits of rest.
  const uint64_t quotient = (high << (32 - shift)) + (rest >> shift);
  return quotient + ((rest & ((uint64_t{1} << shift) - 1)) != 0);
}

EADEM_FN bool reaches_min_p(float logit, float max, float min_p) { return exp32(sub_f32(logit, max)) >= min_p; }

// ---- Step 3: the draw ---------------------------------------------------------------------------------------------

// What the noise of any word lies between: tokens that cannot win need no noise.
EADEM_CONST float kGumbelMin = -2.9f;
EADEM_CONST float kGumbelMax = 22.9f;

EADEM_FN float gumbel_score(float logit, uint32_t word) { return add_f32(logit, gumbel(uniform_w(word))); }

// ---- Logprobs -----------------------------------------------------------------------------------------------------

// sum: the 256-lane sum, by token id, of e^(logit - max) over the tokens that count.
EADEM_FN float log_probability(float logit, float max, float sum) { return sub_f32(sub_f32(logit, max), log32(sum)); }

}  // namespace eadem::numerics
