// The steps of one row between linear layers, element after element as numerics/ defines them: the oracle of every
// other set.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/calls.h"
#include "kernels/kernel_set.h"
#include "numerics/attention.h"
#include "numerics/int8.h"
#include "numerics/layer.h"
#include "numerics/math.h"
#include "numerics/vector_sum.h"

namespace eadem::kernels::reference {
namespace {

// Rounds n elements to operands. False where one is NaN.
bool to_operands(const float* x, int n, uint16_t* y) {
  bool good = true;
  for (int i = 0; i < n; ++i) {
    good &= !numerics::is_nan(x[i]);
    y[i] = numerics::bf16_operand(x[i]);
  }
  return good;
}

bool rms_norm(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y) {
  count_call();
  const float factor = numerics::rms_factor(numerics::vector_sum_of_squares(x, n), n, eps);
  bool good = true;
  for (int i = 0; i < n; ++i) {
    const float scaled = numerics::rms_scale(x[i], factor, weight[i]);
    good &= to_operands(&scaled, 1, y + i);
  }
  std::fill(y + n, y + n_padded, uint16_t{0});
  return good;
}

// q/k norm (weight may be null) and rope of one head, in place.
void norm_and_rotate(const QkvShape& shape, const float* weight, const float* cosine, const float* sine, float* x) {
  if (weight != nullptr) {
    const float sum = numerics::vector_sum_of_squares(x, shape.head_size);
    const float factor = numerics::rms_factor(sum, shape.head_size, shape.eps);
    for (int i = 0; i < shape.head_size; ++i) x[i] = numerics::rms_scale(x[i], factor, weight[i]);
  }
  const int half = shape.rotary / 2;
  for (int i = 0; i < half; ++i) numerics::rotate(x[i], x[half + i], cosine[i], sine[i]);
}

bool split_qkv(const QkvShape& shape, float* qkv, const float* cosine, const float* sine, uint16_t* q, uint16_t* k,
               uint16_t* v) {
  count_call();
  bool good = true;
  float* x = qkv;
  for (int h = 0; h < shape.heads; ++h, x += shape.head_size, q += shape.head_padded) {
    norm_and_rotate(shape, shape.q_norm, cosine, sine, x);
    good &= to_operands(x, shape.head_size, q);
    std::fill(q + shape.head_size, q + shape.head_padded, uint16_t{0});
  }
  for (int h = 0; h < shape.kv_heads; ++h, x += shape.head_size, k += shape.head_size) {
    norm_and_rotate(shape, shape.k_norm, cosine, sine, x);
    good &= to_operands(x, shape.head_size, k);
  }
  return good & to_operands(x, shape.kv_heads * shape.head_size, v);
}

bool swiglu(const float* gate_up, int n, int n_padded, uint16_t* y) {
  count_call();
  bool good = true;
  for (int i = 0; i < n; ++i) {
    const float product = numerics::swiglu(gate_up[i], gate_up[n + i]);
    good &= to_operands(&product, 1, y + i);
  }
  std::fill(y + n, y + n_padded, uint16_t{0});
  return good;
}

void quantise(const uint16_t* operands, int k_padded, int group, int8_t* q, float* scale, int32_t* sum) {
  count_call();
  for (int g = 0; g < k_padded / group; ++g) {
    const int8_t* first = q + g * group;
    scale[g] = numerics::int8_quantise(operands + g * group, group, q + g * group);
    sum[g] = 0;
    for (int i = 0; i < group; ++i) sum[g] += first[i];
  }
}

// Where the largest logit is not finite there is no distribution: the sum is NaN. A largest of -0 is reported as +0.
LogSum log_sum(const float* logits, int n) {
  count_call();
  float max = numerics::kMinusInfinity;
  for (int i = 0; i < n; ++i) {
    if (numerics::is_nan(logits[i]))
      return {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
    max = std::max(max, logits[i]);
  }
  max = numerics::add_f32(max, 0.0f);
  if (__builtin_fabsf(max) == -numerics::kMinusInfinity) return {max, std::numeric_limits<float>::quiet_NaN()};
  float lanes[numerics::kLanes] = {};
  for (int i = 0; i < n; ++i) {
    float& lane = lanes[i % numerics::kLanes];
    lane = numerics::add_f32(lane, numerics::exp32(numerics::sub_f32(logits[i], max)));
  }
  return {max, numerics::lane_tree(lanes)};
}

}  // namespace
}  // namespace eadem::kernels::reference
