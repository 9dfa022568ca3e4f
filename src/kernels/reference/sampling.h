// What the sampler needs of a whole row of logits, element after element.
#pragma once

#include "kernels/calls.h"
#include "kernels/kernel_set.h"
#include "numerics/math.h"
#include "numerics/order.h"

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

}  // namespace
}  // namespace eadem::kernels::reference
