// Linear layers in plain scalar code that walks numerics/ literally: what every other set is compared with. Weights lie
// row-major: [n][k_padded] operands, or [n][k_padded] int8 followed by [n][groups] scales and, with minima, [n][groups]
// minima.
#pragma once

#include "kernels/calls.h"
#include "kernels/kernel_set.h"
#include "numerics/fma32.h"
#include "numerics/int8.h"
#include "numerics/mma16.h"
#include "numerics/shards.h"

namespace eadem::kernels::reference {
namespace {

// Where each part of an int8 matrix begins.
struct Int8Parts {
  int8_t* q;
  float *scale, *minimum;
};

EADEM_FN Int8Parts int8_parts(const LinearShape& s, std::byte* weights) {
  const size_t n = static_cast<size_t>(s.n);
  auto* scale = reinterpret_cast<float*>(weights + n * static_cast<size_t>(s.k_padded));
  return {reinterpret_cast<int8_t*>(weights), scale, scale + n * static_cast<size_t>(s.groups())};
}

EADEM_FN size_t linear_bytes(const LinearShape& s) {
  const size_t n = static_cast<size_t>(s.n), k = static_cast<size_t>(s.k_padded);
  if (s.numerics != Numerics::kInt8) return n * k * sizeof(uint16_t);
  return n * k + n * static_cast<size_t>(s.groups()) * sizeof(float) * (s.minimum ? 2 : 1);
}

EADEM_FN void pack_operands(const LinearShape& s, int n, const uint16_t* operands, std::byte* weights) {
  const size_t bytes = static_cast<size_t>(s.k_padded) * sizeof(uint16_t);
  memcpy(weights + static_cast<size_t>(n) * bytes, operands, bytes);
}

EADEM_FN void pack_int8(const LinearShape& s, int n, const int8_t* q, const float* scale, const float* minimum,
                        std::byte* weights) {
  const Int8Parts parts = int8_parts(s, weights);
  const size_t row = static_cast<size_t>(n), groups = static_cast<size_t>(s.groups());
  memcpy(parts.q + row * static_cast<size_t>(s.k_padded), q, static_cast<size_t>(s.k_padded));
  memcpy(parts.scale + row * groups, scale, groups * sizeof(float));
  if (s.minimum) memcpy(parts.minimum + row * groups, minimum, groups * sizeof(float));
}

EADEM_FN void unpack_row(const LinearShape& s, int n, const std::byte* weights, uint16_t* operands) {
  count_call();
  const size_t row = static_cast<size_t>(n), k = static_cast<size_t>(s.k_padded);
  if (s.numerics != Numerics::kInt8) {
    memcpy(operands, weights + row * k * sizeof(uint16_t), k * sizeof(uint16_t));
    return;
  }
  const Int8Parts parts = int8_parts(s, const_cast<std::byte*>(weights));
  for (size_t i = 0; i < k; ++i) {
    const size_t group = row * static_cast<size_t>(s.groups()) + i / static_cast<size_t>(s.group);
    float value = numerics::mul_f32(parts.scale[group], static_cast<float>(parts.q[row * k + i]));
    if (s.minimum) value = numerics::add_f32(value, parts.minimum[group]);
    operands[i] = numerics::bf16_operand(value);
  }
}

// One shard of one output: the chain over elements [begin, end).
EADEM_FN float operand_shard(const LinearCall& call, int64_t row, int64_t n, int begin, int end) {
  const int64_t k = call.shape->k_padded;
  const uint16_t* x = call.x.operands + row * k + begin;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(call.weights) + n * k + begin;
  return call.shape->numerics == Numerics::kMma16 ? numerics::mma16_chain(0.0f, x, w, end - begin)
                                                  : numerics::fma32_chain(0.0f, x, w, end - begin);
}

EADEM_FN float int8_shard(const LinearCall& call, int64_t row, int64_t n, int begin, int end) {
  const LinearShape& s = *call.shape;
  const Int8Parts parts = int8_parts(s, const_cast<std::byte*>(call.weights));
  float acc = 0.0f;
  for (int k = begin; k < end; k += s.group) {
    const int64_t x_group = row * s.groups() + k / s.group, w_group = n * s.groups() + k / s.group;
    int32_t dot = 0;
    for (int i = k; i < k + s.group; ++i) dot += call.x.q[row * s.k_padded + i] * parts.q[n * s.k_padded + i];
    const int32_t sum = s.minimum ? call.x.sum[x_group] : 0;
    const float* minimum = s.minimum ? parts.minimum + w_group : nullptr;
    acc = numerics::int8_step(acc, dot, call.x.scale[x_group], parts.scale[w_group], sum, minimum);
  }
  return acc;
}

EADEM_FN void linear(const LinearCall& call, const LinearTile& tile) {
  count_call();
  const LinearShape& s = *call.shape;
  const int shard_k = s.k_padded / s.shards;
  const int n_end = tile.panel_end * kPanel < s.n ? tile.panel_end * kPanel : s.n;
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int n = tile.panel_begin * kPanel; n < n_end; ++n) {
      float shard[numerics::kMaxShards] = {};
      for (int i = 0; i < s.shards; ++i) {
        const int begin = i * shard_k, end = begin + shard_k;
        shard[i] = s.numerics == Numerics::kInt8 ? int8_shard(call, row, n, begin, end)
                                                 : operand_shard(call, row, n, begin, end);
      }
      float sum = numerics::shard_tree(shard, s.shards);
      if (call.bias != nullptr) sum = numerics::add_f32(sum, call.bias[n]);
      float& y = call.y[row * call.y_stride + n];
      y = call.add_to_y ? numerics::add_f32(y, sum) : sum;
    }
  }
}

}  // namespace
}  // namespace eadem::kernels::reference
