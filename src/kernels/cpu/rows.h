// The steps of one row between linear layers, over Vec; what is left at a row's end goes element by element through the
// same formulas.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/calls.h"
#include "kernels/cpu/operand_writer.h"
#include "kernels/cpu/vec.h"
#include "kernels/cpu/vector_sum.h"
#include "numerics/attention.h"
#include "numerics/int8.h"
#include "numerics/layer.h"
#include "numerics/math.h"

namespace eadem::kernels::cpu {
namespace {

using numerics::rms_factor;

// operand((x * factor) * weight), zeros up to n_padded. False where an element is NaN.
inline bool scale_row(const float* x, const float* weight, float factor, int n, int n_padded, uint16_t* y) {
  const Vec factors(factor);
  OperandWriter writer;
  int i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    writer.put(y + i, mul(mul(Vec::load(x + i), factors), Vec::load(weight + i)));
  }
  for (; i < n; ++i) writer.put(y + i, numerics::rms_scale(x[i], factor, weight[i]));
  std::fill(y + n, y + n_padded, uint16_t{0});
  return writer.good();
}

inline bool rms_norm(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y) {
  count_call();
  return scale_row(x, weight, rms_factor(vector_sum_of_squares(x, n), n, eps), n, n_padded, y);
}

// q/k norm of one head, in place.
inline void norm_head(const float* weight, int n, float eps, float* x) {
  const float factor = rms_factor(vector_sum_of_squares(x, n), n, eps);
  const Vec factors(factor);
  int i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth)
    mul(mul(Vec::load(x + i), factors), Vec::load(weight + i)).store(x + i);
  for (; i < n; ++i) x[i] = numerics::rms_scale(x[i], factor, weight[i]);
}

// Operands of one head whose pairs (i, i + half) are turned.
EADEM_LANE void put_rotated(const float* x, int n, int half, const float* cosine, const float* sine, uint16_t* y,
                            OperandWriter& writer) {
  int i = 0;
  for (; i + Vec::kWidth <= half; i += Vec::kWidth) {
    const Vec x1 = Vec::load(x + i), x2 = Vec::load(x + half + i), c = Vec::load(cosine + i), s = Vec::load(sine + i);
    const Vec minus = float_of(bit_xor(bits_of(mul(x2, s)), IVec(static_cast<int32_t>(0x80000000u))));
    writer.put(y + i, fma(x1, c, minus));
    writer.put(y + half + i, fma(x2, c, mul(x1, s)));
  }
  for (; i < half; ++i) {
    float x1 = x[i], x2 = x[half + i];
    numerics::rotate(x1, x2, cosine[i], sine[i]);
    writer.put(y + i, x1);
    writer.put(y + half + i, x2);
  }
  writer.put(y + 2 * half, x + 2 * half, n - 2 * half);
}

inline bool split_qkv(const QkvShape& shape, float* qkv, const float* cosine, const float* sine, uint16_t* q,
                      uint16_t* k, uint16_t* v) {
  count_call();
  OperandWriter writer;
  const int size = shape.head_size, half = shape.rotary / 2;
  float* x = qkv;
  for (int h = 0; h < shape.heads; ++h, x += size, q += shape.head_padded) {
    if (shape.q_norm != nullptr) norm_head(shape.q_norm, size, shape.eps, x);
    put_rotated(x, size, half, cosine, sine, q, writer);
    std::fill(q + size, q + shape.head_padded, uint16_t{0});
  }
  for (int h = 0; h < shape.kv_heads; ++h, x += size, k += size) {
    if (shape.k_norm != nullptr) norm_head(shape.k_norm, size, shape.eps, x);
    put_rotated(x, size, half, cosine, sine, k, writer);
  }
  writer.put(v, x, shape.kv_heads * size);
  return writer.good();
}

inline bool swiglu(const float* gate_up, int n, int n_padded, uint16_t* y) {
  count_call();
  const float* up = gate_up + n;
  OperandWriter writer;
  int i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    writer.put(y + i, numerics::swiglu32(Vec::load(gate_up + i), Vec::load(up + i)));
  }
  for (; i < n; ++i) writer.put(y + i, numerics::swiglu32(gate_up[i], up[i]));
  std::fill(y + n, y + n_padded, uint16_t{0});
  return writer.good();
}

// x / scale to the nearest integer, ties to even; |x / scale| < 128. inverse: 1 / scale, whose product is off by
// less than 2^-15: only what is as near to the middle of two integers needs the division itself.
EADEM_LANE IVec quantised(Vec x, Vec scale, Vec inverse) {
  const Vec magic(numerics::kRoundMagic);  // adding and subtracting 1.5 * 2^23 rounds so
  const Vec quotient = mul(x, inverse);
  Vec rounded = sub(add(quotient, magic), magic);
  if (any(lt(Vec(0.5f - 0x1p-14f), abs(sub(quotient, rounded))))) rounded = sub(add(div(x, scale), magic), magic);
  return truncate(rounded);
}

// One scale group; kGroup is known, so that no loop has a tail. Returns the sum of q.
template <int kGroup>
inline int32_t quantise_group(const uint16_t* operands, float scale, float inverse, int8_t* q) {
  int32_t rounded[kGroup], sum = 0;
  for (int i = 0; i < kGroup; i += Vec::kWidth) {
    quantised(expand(operands + i), Vec(scale), Vec(inverse)).store(rounded + i);
  }
  for (int i = 0; i < kGroup; ++i) q[i] = static_cast<int8_t>(rounded[i]);
  for (int i = 0; i < kGroup; ++i) sum += rounded[i];
  return sum;
}

template <int kGroup>
inline float quantised_scale(const uint16_t* operands) {
  uint16_t largest = 0;
  for (int i = 0; i < kGroup; i += 32) largest = std::max(largest, largest_magnitude(operands + i));
  return numerics::div_f32(numerics::operand_value(largest), 127.0f);
}

// Some groups' scales first, then their elements: a group from its maximum to its last element is one long chain, and
// shorter ones overlap (measured: docs/cpu-linear.md).
template <int kGroup>
inline void quantise_groups(const uint16_t* operands, int groups, int8_t* q, float* scale, int32_t* sum) {
  constexpr int kTogether = 16;
  for (int begin = 0; begin < groups; begin += kTogether) {
    const int end = std::min(groups, begin + kTogether);
    float inverse[kTogether];
    for (int g = begin; g < end; ++g) {
      scale[g] = quantised_scale<kGroup>(operands + g * kGroup);
      inverse[g - begin] = scale[g] == 0.0f ? 0.0f : numerics::div_f32(1.0f, scale[g]);
    }
    for (int g = begin; g < end; ++g) {
      sum[g] = quantise_group<kGroup>(operands + g * kGroup, scale[g], inverse[g - begin], q + g * kGroup);
    }
  }
}

inline void quantise(const uint16_t* operands, int k_padded, int group, int8_t* q, float* scale, int32_t* sum) {
  count_call();
  constexpr int kSmall = numerics::kStoredGroup, kLarge = numerics::kQuantisedGroup;
  if (group == kLarge) {
    quantise_groups<kLarge>(operands, k_padded / kLarge, q, scale, sum);
  } else {
    quantise_groups<kSmall>(operands, k_padded / kSmall, q, scale, sum);
  }
}

// The largest of n logits, and whether a NaN is among them. Maxima may be taken in any order.
inline float largest_logit(const float* x, int n, bool* nan) {
  constexpr int kChains = 4;
  Vec largest[kChains] = {Vec(numerics::kMinusInfinity), Vec(numerics::kMinusInfinity), Vec(numerics::kMinusInfinity),
                          Vec(numerics::kMinusInfinity)};
  Mask bad = lt(Vec(0.0f), Vec(0.0f));
  int i = 0;
  for (; i + kChains * Vec::kWidth <= n; i += kChains * Vec::kWidth) {
    for (int j = 0; j < kChains; ++j) {
      const Vec v = Vec::load(x + i + j * Vec::kWidth);
      bad = either(bad, is_nan(v));
      largest[j] = max(v, largest[j]);
    }
  }
  float result = largest_lane(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
  *nan = any(bad);
  for (; i < n; ++i) {
    *nan |= numerics::is_nan(x[i]);
    result = std::max(result, x[i]);
  }
  return result;
}

// The reference's rules for a largest logit that is -0 or not finite.
inline LogSum log_sum(const float* logits, int n) {
  count_call();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  bool nan = false;
  const float max = numerics::add_f32(largest_logit(logits, n, &nan), 0.0f);
  if (nan) return {kNan, kNan};
  if (__builtin_fabsf(max) == -numerics::kMinusInfinity) return {max, kNan};
  alignas(64) float lanes[kLanes] = {};
  fold_lanes(logits, n, lanes, [max](auto lane, auto logit) {
    using numerics::add;
    using numerics::sub;
    return add(lane, numerics::exp32(sub(logit, decltype(logit)(max))));
  });
  return {max, lane_tree(lanes)};
}

}  // namespace
}  // namespace eadem::kernels::cpu
