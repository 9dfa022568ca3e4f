// Attention as numerics/attention.h defines it, one row, head, block and key after the other: the oracle of every other
// set. A KV block is K [64][head_size] and then V [64][head_size].
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/calls.h"
#include "kernels/kernel_set.h"
#include "numerics/attention.h"

namespace eadem::kernels::reference {
namespace {

using numerics::kKvBlock;
using numerics::kMaxHead;
using numerics::kSplit;

size_t kv_bytes(const AttentionShape& shape) {
  return 2 * sizeof(uint16_t) * kKvBlock * static_cast<size_t>(shape.head_size);
}

// The rows of one slot: element 0 of its key, element 0 of its value.
const uint16_t* key_of(const AttentionShape& shape, const std::byte* block, int slot) {
  return reinterpret_cast<const uint16_t*>(block) + slot * shape.head_size;
}
const uint16_t* value_of(const AttentionShape& shape, const std::byte* block, int slot) {
  return key_of(shape, block, kKvBlock + slot);
}

void kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k, const uint16_t* v) {
  const size_t row = sizeof(uint16_t) * static_cast<size_t>(shape.head_size);
  std::memcpy(block + static_cast<size_t>(slot) * row, k, row);
  std::memcpy(block + static_cast<size_t>(kKvBlock + slot) * row, v, row);
}

void kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
  std::copy_n(key_of(shape, block, slot), shape.head_size, k);
  std::copy_n(value_of(shape, block, slot), shape.head_size, v);
}

float chain(Numerics tree, float acc, const uint16_t* a, const uint16_t* b, int k) {
  return tree == Numerics::kMma16 ? numerics::mma16_chain(acc, a, b, k) : numerics::fma32_chain(acc, a, b, k);
}

// One block of keys for one row and head. first, last: the block's visible slots. Returns false where the reference
// passed its limit.
bool add_block(const AttentionShape& shape, const uint16_t* q, const std::byte* block, int first, int last,
               numerics::SplitState& state, float* o) {
  float s[kKvBlock];
  float largest = numerics::kMinusInfinity;
  for (int slot = first; slot <= last; ++slot) {
    uint16_t key[kMaxHead] = {};
    std::copy_n(key_of(shape, block, slot), shape.head_size, key);
    s[slot] = chain(shape.numerics, 0.0f, q, key, shape.head_padded);
    largest = std::max(largest, s[slot]);
  }
  const float next = numerics::next_reference(state.m, largest, shape.c);
  const float a = numerics::rescale_factor(state.m, next, shape.c);
  const float minus_mc = -numerics::mul_f32(next, shape.c);
  state.m = next;

  float p[kKvBlock] = {};
  uint16_t p_operand[kKvBlock];
  for (int slot = first; slot <= last; ++slot) p[slot] = numerics::key_weight(s[slot], shape.c, minus_mc);
  for (int slot = 0; slot < kKvBlock; ++slot) p_operand[slot] = numerics::bf16_operand(p[slot]);
  numerics::add_weights(state, p, a);

  for (int d = 0; d < shape.head_size; ++d) {
    uint16_t column[kKvBlock];
    for (int slot = 0; slot < kKvBlock; ++slot) column[slot] = value_of(shape, block, slot)[d];
    if (a != 1.0f) o[d] = numerics::rescale_output(o[d], a);
    o[d] = chain(shape.numerics, o[d], p_operand, column, kKvBlock);
  }
  return __builtin_fabsf(minus_mc) <= numerics::kScoreLimit;
}

void attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                     const SplitResult& result) {
  count_call();
  const int group = shape.group();
  for (int i = 0; i < rows.rows * group; ++i) {
    const int row = i / group, head = kv_head * group + i % group;
    const int64_t position = rows.positions[row];
    const uint16_t* q = rows.q + (static_cast<int64_t>(row) * shape.heads + head) * shape.head_padded;
    float* o = result.o + static_cast<int64_t>(i) * shape.head_padded;
    std::fill_n(o, shape.head_padded, 0.0f);
    numerics::SplitState state;
    const int64_t begin = std::max(split * kSplit, numerics::first_visible(position, shape.window));
    const int64_t end = std::min((split + 1) * kSplit, position + 1);
    for (int64_t key = begin; key < end; key = (key / kKvBlock + 1) * kKvBlock) {
      const int64_t block = key / kKvBlock;
      const int first = static_cast<int>(key % kKvBlock);
      const int last = static_cast<int>(std::min<int64_t>(end - 1 - block * kKvBlock, kKvBlock - 1));
      if (!add_block(shape, q, rows.kv.block(block, kv_head), first, last, state, o)) result.bad[row] = true;
    }
    result.m[i] = state.m;
    result.l[i] = numerics::split_weight(state);
  }
}

void attention_merge(const AttentionShape& shape, int count, const SplitResult& target, const SplitResult& part) {
  count_call();
  for (int i = 0; i < count; ++i) {
    if (part.m[i] == numerics::kMinusInfinity) continue;
    float* sum = target.o + static_cast<int64_t>(i) * shape.head_padded;
    const float* o = part.o + static_cast<int64_t>(i) * shape.head_padded;
    if (target.m[i] == numerics::kMinusInfinity) {
      target.m[i] = part.m[i];
      target.l[i] = part.l[i];
      std::copy_n(o, shape.head_padded, sum);
      continue;
    }
    const numerics::MergeFactors factors = numerics::merge_factors(target.m[i], part.m[i], shape.c);
    target.m[i] = factors.m;
    target.l[i] = numerics::merge(target.l[i], factors.e1, part.l[i], factors.e2);
    for (int d = 0; d < shape.head_padded; ++d) sum[d] = numerics::merge(sum[d], factors.e1, o[d], factors.e2);
  }
}

void attention_finish(const AttentionShape& shape, int count, const SplitResult& state, uint16_t* const* out) {
  count_call();
  for (int i = 0; i < count; ++i) {
    const float* sum = state.o + static_cast<int64_t>(i) * shape.head_padded;
    const float reciprocal = numerics::div_f32(1.0f, state.l[i]);
    for (int d = 0; d < shape.head_size; ++d) {
      const float y = numerics::mul_f32(sum[d], reciprocal);
      if (numerics::is_nan(y)) state.bad[i / shape.group()] = true;
      out[i][d] = numerics::bf16_operand(y);
    }
  }
}

}  // namespace
}  // namespace eadem::kernels::reference
