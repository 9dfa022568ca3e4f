// Arithmetic of the sampler: how a row of logits becomes a token. The order of the steps is src/sampler's; every
// operation is here.
#pragma once

#include <cstdint>

#include "numerics/math.h"
#include "numerics/order.h"
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

// ---- Step 2 (with order.h) ----------------------------------------------------------------------------------------

// A token's weight in top-p: e^(logit - max) in units of 2^-31. 0 where logit - max < kWeightless.
EADEM_FN uint32_t nucleus_weight(float logit, float max) {
  return static_cast<uint32_t>(top_p_weight(exp32(sub_f32(logit, max))));
}
// 2^31 * e^-22.25 = 0.47, which rounds to 0.
EADEM_CONST float kWeightless = -22.25f;

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
