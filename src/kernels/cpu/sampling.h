// What the sampler needs of a whole row of logits, over Vec.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vec.h"
#include "kernels/cpu/vector_sum.h"
#include "numerics/math.h"
#include "numerics/order.h"
#include "numerics/sampling.h"

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

// The sum over n tokens: vector(i) are the weights of the kWidth from i on, one(i) is that of one, for the last few.
template <class Vector, class One>
EADEM_LANE uint64_t sum_weights(int n, const Vector& vector, const One& one) {
  uint64_t total = 0;
  int i = 0;
  while (i + Vec::kWidth <= n) {
    WeightSum sum;
    const int end = n - i > WeightSum::kSteps * Vec::kWidth ? i + WeightSum::kSteps * Vec::kWidth : n;
    for (; i + Vec::kWidth <= end; i += Vec::kWidth) sum.add_weights(vector(i));
    total += sum.total();
  }
  for (; i < n; ++i) total += one(i);
  return total;
}

inline uint64_t top_p_weights(const float* logits, int n, float max, float* weights) {
  count_call();
  const auto vector = [&](int i) {
    const Vec w = rint_positive(mul(numerics::exp32(sub(Vec::load(logits + i), Vec(max))), Vec(0x1p31f)));
    w.store(weights + i);
    return w;
  };
  const auto one = [&](int i) {
    const uint64_t weight = numerics::top_p_weight(numerics::exp32(numerics::sub_f32(logits[i], max)));
    weights[i] = static_cast<float>(weight);
    return weight;
  };
  return sum_weights(n, vector, one);
}

inline uint64_t weight_above(const float* weights, int n, float least) {
  count_call();
  const Vec bound(least), zero(0.0f);
  const auto vector = [&](int i) {
    const Vec w = Vec::load(weights + i);
    return select(lt(w, bound), zero, w);
  };
  const auto one = [&](int i) { return weights[i] >= least ? static_cast<uint64_t>(weights[i]) : uint64_t{0}; };
  return sum_weights(n, vector, one);
}

inline int weights_between(const float* weights, int begin, int end, float low, float high, int32_t* places) {
  count_call();
  const Vec lows(low), highs(high);
  int count = 0;
  for (int i = begin; i < end; i += Vec::kWidth) {
    const int n = end - i < Vec::kWidth ? end - i : Vec::kWidth;
    if (n == Vec::kWidth) {
      const Vec w = Vec::load(weights + i);
      if (!any(both(either(lt(lows, w), eq(lows, w)), lt(w, highs)))) continue;
    }
    for (int j = i; j < i + n; ++j) {
      if (weights[j] >= low && weights[j] < high) places[count++] = j;
    }
  }
  return count;
}

inline Largest largest(const float* logits, int n) {
  count_call();
  Largest result{0.0f, 0, false};
  result.logit = numerics::add_f32(largest_logit(logits, n, &result.nan), 0.0f);
  if (result.nan) return result;
  const Vec bound(result.logit);
  constexpr int kTile = 4 * Vec::kWidth;
  int i = 0;
  for (; i + kTile <= n; i += kTile) {
    Vec top = Vec::load(logits + i);
    for (int j = Vec::kWidth; j < kTile; j += Vec::kWidth) top = max(top, Vec::load(logits + i + j));
    if (any(eq(top, bound))) break;
  }
  while (logits[i] != result.logit) ++i;
  result.token = i;
  return result;
}

// ---- Noise ----------------------------------------------------------------------------------------------------------

// numerics::token_words of kWidth groups of four tokens.
EADEM_LANE void token_words(uint64_t seed, IVec groups, uint32_t position, IVec* word) {
  const auto lanes = [](uint32_t x) { return IVec(static_cast<int32_t>(x)); };
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  IVec c0 = groups, c1 = lanes(position), c2(0), c3 = lanes(static_cast<uint32_t>(numerics::Purpose::kToken));
  for (int round = 0; round < 10; ++round) {
    IVec high0, low0, high1, low1;
    multiply(c0, 0xD2511F53u, high0, low0);
    multiply(c2, 0xCD9E8D57u, high1, low1);
    c0 = bit_xor(bit_xor(high1, c1), lanes(k0)), c1 = low1;
    c2 = bit_xor(bit_xor(high0, c3), lanes(k1)), c3 = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

// to[i][g] = from[4 g + i]: each token of a group beside its word.
EADEM_LANE void part_groups(const float* from, float (*to)[Vec::kWidth]) {
  for (int g = 0; g < Vec::kWidth; g += 4, from += 16) {
    const Float4 a = load4(from), b = load4(from + 4), c = load4(from + 8), d = load4(from + 12);
    const Float4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Float4 ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to[0] + g, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store4(to[1] + g, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store4(to[2] + g, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
    store4(to[3] + g, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
  }
}

// A token reaches the score `best` only with noise of at least D = best - logit, so with a word of at most
// 2^32 (1 - e^(-e^-D)) <= 2^32 e^-D. `near` is best less far more than the roundings of D and of the score; the
// factor and the last term cover those of the noise (numerics/rng.h).
class WordBound {
 public:
  explicit WordBound(float best)
      : near_(numerics::sub_f32(numerics::sub_f32(best, __builtin_fabsf(best) * 0x1p-20f), 0x1p-10f)) {}
  // Halves of words, so that they are signed numbers.
  EADEM_LANE Mask may_reach(Vec logits, IVec words) const {
    const Vec limit = fma(numerics::exp32(sub(logits, Vec(near_))), Vec(0x1.01p+31f), Vec(64.0f));
    return lt(to_float(shift_right_logical<1>(words)), limit);
  }

 private:
  float near_;
};

inline int contenders(const RaceCall& call, int begin, int end, int32_t* tokens, uint32_t* words) {
  count_call();
  constexpr int kTile = 4 * Vec::kWidth;
  const WordBound bound(call.best);
  const Vec least(call.least);
  int32_t steps[Vec::kWidth];
  for (int g = 0; g < Vec::kWidth; ++g) steps[g] = g;
  int count = 0, i = begin;
  for (; i + kTile <= end; i += kTile) {
    const float* tile = call.logits + i;
    Vec top = Vec::load(tile);
    for (int j = Vec::kWidth; j < kTile; j += Vec::kWidth) top = max(top, Vec::load(tile + j));
    if (!any(lt(least, top)) && !any(eq(least, top))) continue;
    IVec word[4];
    token_words(call.seed, add(IVec(i / 4), IVec::load(steps)), call.position, word);
    alignas(64) float logits[4][Vec::kWidth];
    part_groups(tile, logits);
    Mask reach[4];
    for (int t = 0; t < 4; ++t) reach[t] = bound.may_reach(Vec::load(logits[t]), word[t]);
    if (!any(either(either(reach[0], reach[1]), either(reach[2], reach[3])))) continue;
    int32_t reaches[4][Vec::kWidth];
    uint32_t all[4][Vec::kWidth];
    for (int t = 0; t < 4; ++t) {
      select(reach[t], IVec(1), IVec(0)).store(reaches[t]);
      word[t].store(all[t]);
    }
    for (int j = 0; j < kTile; ++j) {
      if (reaches[j % 4][j / 4] == 0 || !(tile[j] >= call.least)) continue;
      tokens[count] = i + j;
      words[count++] = all[j % 4][j / 4];
    }
  }
  for (; i < end; ++i) {
    if (!(call.logits[i] >= call.least)) continue;
    tokens[count] = i;
    words[count++] = numerics::token_word(call.seed, static_cast<uint32_t>(i), call.position);
  }
  return count;
}

}  // namespace
}  // namespace eadem::kernels::cpu
