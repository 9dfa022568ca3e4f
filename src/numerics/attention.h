// Attention of one query row and head. Keys are cut at absolute positions into blocks of 64 and splits of 1,024;
// nothing about any other row is an input. docs/numerics.md tells why each step is what it is.
#pragma once

#include "numerics/fma32.h"
#include "numerics/math.h"
#include "numerics/mma16.h"

namespace eadem::numerics {

inline constexpr float kLazy = 8.0f;             // the reference moves only where a score exceeds it by 2^8
inline constexpr float kFarKey = -50.0f;         // below 2^-50 of the reference a key has no weight
inline constexpr float kCarryFloor = 0x1p-100f;  // smaller carries become +0
inline constexpr float kScoreLimit = 0x1p20f;    // |reference * c| above this fails the row
inline constexpr float kMinusInfinity = -__builtin_inff();

// Whether position `i` sees key `j`; window 0 means none.
EADEM_FN bool visible(int64_t i, int64_t j, int64_t window) { return j <= i && (window == 0 || i - window < j); }

// The first key that position i sees.
EADEM_FN int64_t first_visible(int64_t i, int64_t window) { return window == 0 || i < window ? 0 : i - window + 1; }

// The state of one row and head inside a split: reference m, weights l[4], output o[head size] (held by the caller).
struct SplitState {
  float m = kMinusInfinity;
  float l[4] = {0.0f, 0.0f, 0.0f, 0.0f};
};

// The lazy reference: the new m for a block whose largest visible score is `largest`.
EADEM_FN float next_reference(float m, float largest, float c) {
  return m == kMinusInfinity || mul_f32(sub_f32(largest, m), c) > kLazy ? largest : m;
}

// The factor for what was summed under m when the reference becomes `next`.
EADEM_FN float rescale_factor(float m, float next, float c) {
  if (m == next) return 1.0f;
  if (m == kMinusInfinity) return 0.0f;
  return exp2_full(mul_f32(sub_f32(m, next), c));
}

EADEM_FN float rescale_output(float o, float a) {
  const float scaled = mul_f32(o, a);
  return __builtin_fabsf(scaled) < kCarryFloor ? 0.0f : scaled;
}

// The weight of a visible key with score s, minus_mc = -(m * c).
EADEM_FN float key_weight(float s, float c, float minus_mc) {
  const float t = fma_f32(s, c, minus_mc);
  return t < kFarKey ? 0.0f : exp2p(t);
}

// Adds a block's 64 weights (+0 where hidden) to l: column pairs as the tensor core's registers hold them.
EADEM_FN void add_weights(SplitState& state, const float* p, float a) {
  for (int r = 0; r < 4; ++r) {
    float u[8];
    for (int j = 0; j < 8; ++j) u[j] = add_f32(p[8 * j + 2 * r], p[8 * j + 2 * r + 1]);
    const float v =
        add_f32(add_f32(add_f32(u[0], u[1]), add_f32(u[2], u[3])), add_f32(add_f32(u[4], u[5]), add_f32(u[6], u[7])));
    state.l[r] = fma_f32(state.l[r], a, v);
  }
}

EADEM_FN float split_weight(const SplitState& state) {
  return add_f32(add_f32(state.l[0], state.l[1]), add_f32(state.l[2], state.l[3]));
}

// The state over splits (M, L, T of the specification; T held by the caller) and the merge of one later split (m, l,
// O).
struct MergeFactors {
  float m, e1, e2;  // T = fma(T, e1, O * e2); L = fma(L, e1, l * e2)
};

// One of the two: of what was summed under `m`, when `next` is the larger reference.
EADEM_FN float merge_factor(float m, float next, float c) {
  return m == next ? 1.0f : exp2_full(mul_f32(sub_f32(m, next), c));
}

EADEM_FN MergeFactors merge_factors(float big_m, float m, float c) {
  const float next = big_m > m ? big_m : m;
  return {next, merge_factor(big_m, next, c), merge_factor(m, next, c)};
}

EADEM_FN float merge(float sum, float e1, float part, float e2) { return fma_f32(sum, e1, mul_f32(part, e2)); }

}  // namespace eadem::numerics
