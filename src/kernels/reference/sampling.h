// What the sampler needs of a whole row of logits, element after element.
#pragma once

#include "kernels/calls.h"
#include "kernels/kernel_set.h"
#include "numerics/math.h"
#include "numerics/order.h"
#include "numerics/sampling.h"

namespace eadem::kernels::reference {
namespace {

uint64_t top_p_weights(const float* logits, int n, float max, float* weights) {
  count_call();
  uint64_t total = 0;
  for (int i = 0; i < n; ++i) {
    const uint64_t weight = numerics::top_p_weight(numerics::exp32(numerics::sub_f32(logits[i], max)));
    weights[i] = static_cast<float>(weight);
    total += weight;
  }
  return total;
}

uint64_t weight_above(const float* weights, int n, float least) {
  count_call();
  uint64_t total = 0;
  for (int i = 0; i < n; ++i) total += weights[i] >= least ? static_cast<uint64_t>(weights[i]) : 0;
  return total;
}

int weights_between(const float* weights, int begin, int end, float low, float high, int32_t* places) {
  count_call();
  int count = 0;
  for (int i = begin; i < end; ++i) {
    if (weights[i] >= low && weights[i] < high) places[count++] = i;
  }
  return count;
}

Largest largest(const float* logits, int n) {
  count_call();
  Largest result{-__builtin_inff(), 0, false};
  for (int i = 0; i < n; ++i) {
    result.nan |= numerics::is_nan(logits[i]);
    if (logits[i] > result.logit) result = {logits[i], i, result.nan};
  }
  result.logit = numerics::add_f32(result.logit, 0.0f);
  return result;
}

// Every token that takes part.
int contenders(const RaceCall& call, int begin, int end, int32_t* tokens, uint32_t* words) {
  count_call();
  int count = 0;
  for (int i = begin; i < end; ++i) {
    if (!(call.logits[i] >= call.least)) continue;
    tokens[count] = i;
    words[count++] = numerics::token_word(call.seed, static_cast<uint32_t>(i), call.position);
  }
  return count;
}

}  // namespace
}  // namespace eadem::kernels::reference
