// What the sampler needs of a whole row of logits, over Vec.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/vec.h"
#include "numerics/math.h"
#include "numerics/order.h"

namespace eadem::kernels::cpu {
namespace {

// Sums of weights (integers of at most 2^31) in integer lanes, an upper part in units of 2^16 and a lower one: exact.
class WeightSum {
 public:
  static constexpr int kSteps = 1 << 14;  // lanes hold this many parts below 2^16 and stay below 2^31

  EADEM_LANE void add_weights(Vec w) {
    const IVec high = truncate(mul(w, Vec(0x1p-16f)));
    const IVec low = truncate(sub(w, mul(to_float(high), Vec(0x1p16f))));
    high_ = add(high_, high);
    low_ = add(low_, low);
  }
  uint64_t total() const {
    int32_t high[Vec::kWidth], low[Vec::kWidth];
    high_.store(high);
    low_.store(low);
    uint64_t sum = 0;
    for (int i = 0; i < Vec::kWidth; ++i) {
      sum += (static_cast<uint64_t>(static_cast<uint32_t>(high[i])) << 16) + static_cast<uint32_t>(low[i]);
    }
    return sum;
  }

 private:
  IVec high_ = IVec(0), low_ = IVec(0);
};

// numerics::rint_f32 of a number that is not negative.
EADEM_LANE Vec rint_positive(Vec x) {
  const Vec big(0x1p23f);
  return select(lt(x, big), sub(add(x, big), big), x);
}

inline uint64_t top_p_weights(const float* logits, int n, float max, float* weights) {
  count_call();
  uint64_t total = 0;
  int i = 0;
  while (i + Vec::kWidth <= n) {
    WeightSum sum;
    const int end = n - i > WeightSum::kSteps * Vec::kWidth ? i + WeightSum::kSteps * Vec::kWidth : n;
    for (; i + Vec::kWidth <= end; i += Vec::kWidth) {
      const Vec w = rint_positive(mul(numerics::exp32(sub(Vec::load(logits + i), Vec(max))), Vec(0x1p31f)));
      w.store(weights + i);
      sum.add_weights(w);
    }
    total += sum.total();
  }
  for (; i < n; ++i) {
    const uint64_t weight = numerics::top_p_weight(numerics::exp32(numerics::sub_f32(logits[i], max)));
    weights[i] = static_cast<float>(weight);
    total += weight;
  }
  return total;
}

}  // namespace
}  // namespace eadem::kernels::cpu
