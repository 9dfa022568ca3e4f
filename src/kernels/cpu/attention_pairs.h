// fma32's attention by AVX512_BF16: chains by vdpbf16ps (cpu/linear_pairs.h), over keys and values that lie by pairs.
//
// Of few rows x heads (decode) the lanes are keys, and elements of the values, as in cpu/attention.h. Of many they are
// the rows x heads (cpu/attention_lanes.h), so that sixteen are weighed at once; the words of keys and values are then
// broadcast, from the same panels.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_lanes.h"
#include "kernels/cpu/linear_pairs.h"

namespace eadem::kernels::cpu {
namespace {

// ---- Few rows -------------------------------------------------------------------------------------------------------

struct PairOperands {
  static constexpr int kPowers = 0;
  alignas(64) int32_t q[kChunk * kMaxHead / 2];
  alignas(64) int32_t p[kChunk * kKvBlock / 2];
  alignas(64) float weights[kKvBlock];  // of the row that is weighed

  void set_query(int i, const uint16_t* operands, int head) { pair_operands(operands, head, q + i * head / 2); }
  float* value(int) { return weights; }
  float* power(int) { return nullptr; }
  void set_weights(int i) { pair_values(weights, kKvBlock, p + i * kKvBlock / 2); }

  void add_scores(const AttentionShape& shape, int first, int rows, const std::byte* keys, int panels, size_t next,
                  float* scores) const {
    const int head = shape.head_padded;
    pair_chains(scores, kKvBlock, q + first * head / 2, head / 2, rows, keys, key_panel_bytes(shape), panels, next,
                head);
  }
  void add_outputs(const AttentionShape& shape, int rows, const std::byte* values, int from, int to, size_t next,
                   float* o) const {
    pair_chains(o, shape.head_padded, p + from / 2, kKvBlock / 2, rows, values + operand_panel_bytes(from),
                kValuePanelBytes, value_panels(shape), next, to - from);
  }
};

// ---- Many rows ------------------------------------------------------------------------------------------------------

// From so many rows x heads on they are the lanes.
inline constexpr int kLeastLanes = 9;

// Up to 16 kLanes rows x heads that walk the blocks of a split together.
template <int kLanes>
class PairChunk {
 public:
  // Rows x heads [first, first + count) of the call.
  PairChunk(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split, int first, int count)
      : shape_(shape), rows_(rows), kv_head_(kv_head), split_(split), first_(first), count_(count) {
    for (int t = 0; t < kLanes; ++t) {
      lanes_[t] = start_lanes(shape, rows, split, first + t * kRowLanes, lanes_of(t));
      pack_queries(t);
    }
    low_ = lanes_[0].first, high_ = lanes_[0].last;
    for (const LaneRows& lanes : lanes_) low_ = std::min(low_, lanes.first), high_ = std::max(high_, lanes.last);
    std::fill_n(o_, kLanes * o_step(), 0.0f);
  }

  void run(const SplitResult& result) {
    for (int b = low_ / kKvBlock; b * kKvBlock < high_; ++b) {
      // Keys of the block that some lane may see.
      const int from = std::max(low_ - b * kKvBlock, 0), to = std::min(high_ - b * kKvBlock, kKvBlock);
      score(b, from, to);
      for (int t = 0; t < kLanes; ++t) weigh(b, t, result.bad);
      accumulate(b, from, to);
    }
    for (int t = 0; t < kLanes; ++t) {
      finish_lanes(lanes_[t], o_ + t * o_step(), shape_.head_padded, first_ + t * kRowLanes, lanes_of(t), result);
    }
  }

 private:
  static constexpr int kScores = kKvBlock * kRowLanes;       // floats of a block and 16 lanes
  static constexpr int kWeights = kKvBlock / 2 * kRowLanes;  // words

  int lanes_of(int t) const { return std::min(kRowLanes, count_ - t * kRowLanes); }
  int o_step() const { return shape_.head_padded * kRowLanes; }
  size_t q_bytes() const { return operand_panel_bytes(shape_.head_padded); }
  const std::byte* block(int b) const { return rows_.kv.block(split_ * (kSplit / kKvBlock) + b, kv_head_); }

  // q as a panel whose outputs are the lanes.
  void pack_queries(int t) {
    const int group = shape_.group();
    std::byte* to = q_ + static_cast<size_t>(t) * q_bytes();
    for (int d = 0; d < shape_.head_padded; d += numerics::kLeaf, to += operand_panel_bytes(numerics::kLeaf)) {
      alignas(64) int32_t words[kRowLanes][kLeafWords];
      for (int i = 0; i < lanes_of(t); ++i) {
        const int at = first_ + t * kRowLanes + i;
        const int64_t head = static_cast<int64_t>(at / group) * shape_.heads + kv_head_ * group + at % group;
        pair_operands(rows_.q + head * shape_.head_padded + d, numerics::kLeaf, words[i]);
      }
      transpose_words(words, kLeafWords, lanes_of(t), to, kRowLanes, kLeafWords);
    }
  }

  // Scores of the panels of keys [from, to). Of other keys of the block no lane sees one, so they are hidden as they
  // are.
  void score(int b, int from, int to) {
    for (int key = from / kPanel * kPanel; key < to; key += kPanel) {
      float* const sums = scores_ + key * kRowLanes;
      for (int t = 0; t < kLanes; ++t) std::fill_n(sums + t * kScores, kPanel * kRowLanes, 0.0f);
      const std::byte* const keys = block(b) + static_cast<size_t>(key / kPanel) * key_panel_bytes(shape_);
      multiply({sums, kRowLanes, kScores}, keys, q_, q_bytes(), shape_.head_padded);
    }
  }

  void weigh(int b, int t, bool* bad) {
    LaneRows& lanes = lanes_[t];
    float* const scores = scores_ + t * kScores;
    const LaneStep step = move_references(largest_seen(lanes, b * kKvBlock, scores), shape_.c, lanes.m);
    flag_rows(step, shape_.group(), first_ + t * kRowLanes, lanes_of(t), bad);
    if (any(step.rescale)) rescale_lanes(step, shape_.head_padded, o_ + t * o_step());
    // Of four keys the first and the third make a word of the even chain, the others one of the odd chain.
    int32_t* to = weights_ + t * kWeights;
    Vec first, second;
    const auto put = [&](int pair, Vec low, Vec high) {
      if (pair % 2 == 0) {
        first = low, second = high;
        return;
      }
      int32_t* const word = to + (pair / kLeafWords * kLeafWords + pair % kLeafWords / 2) * kRowLanes;
      operand_words(low, first).store(word);
      operand_words(high, second).store(word + kLeafWords / 2 * kRowLanes);
    };
    // Beside it the next block is asked for, in as many parts as all lanes take.
    const size_t part = (b + 1) * kKvBlock < high_ ? kv_bytes(shape_) / (8 * kLanes) : 0;
    const std::byte* const coming = part == 0 ? nullptr : block(b + 1) + static_cast<size_t>(8 * t) * part;
    weigh_lanes(scores, shape_.c, step, lanes.l, put, [&](int eighth) {
      const size_t end = eighth < 8 ? part : 0;
      for (size_t i = 0; i < end; i += 64) prefetch_weights(coming + static_cast<size_t>(eighth) * part + i);
    });
  }

  // O goes on over the leaves of keys [from, to): over others it would stay as it is.
  void accumulate(int b, int from, int to) {
    const int leaf = from / numerics::kLeaf, leaves = (to - 1) / numerics::kLeaf + 1 - leaf;
    const size_t at = static_cast<size_t>(leaf) * operand_panel_bytes(numerics::kLeaf);
    const std::byte* values = block(b) + value_offset(shape_) + at;
    const auto* const weights = reinterpret_cast<const std::byte*>(weights_) + at;
    for (int panel = 0; panel < value_panels(shape_); ++panel, values += kValuePanelBytes) {
      multiply({o_ + panel * kPanel * kRowLanes, kRowLanes, o_step()}, values, weights, kWeights * sizeof(int32_t),
               leaves * numerics::kLeaf);
    }
  }

  // Sums of a panel's 16 keys (or elements) x the lanes go on over k. lanes: panels of 16 lanes, `step` bytes apart.
  static void multiply(const PairSums& sums, const std::byte* panel, const std::byte* lanes, size_t step, int k) {
    pair_rows<kLanes, kPanel>(sums, {reinterpret_cast<const PairWord*>(panel), 1}, kPanel, lanes, step, 0, k);
  }

  const AttentionShape& shape_;
  const AttentionRows& rows_;
  int kv_head_;
  int64_t split_;
  int first_, count_;
  int low_, high_;  // keys [low, high) of the split: what some lane sees
  LaneRows lanes_[kLanes];
  alignas(64) float scores_[kLanes * kScores];
  alignas(64) int32_t weights_[kLanes * kWeights];
  alignas(64) std::byte q_[kLanes * operand_panel_bytes(kMaxHead)];
  alignas(64) float o_[kLanes * kMaxHead * kRowLanes];
};

EADEM_FN void pair_attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                                   const SplitResult& result) {
  if (shape.numerics != Numerics::kFma32) return attention_split(shape, rows, kv_head, split, result);
  count_call();
  const int total = rows.rows * shape.group();
  if (total < kLeastLanes) {
    return attention_split_by<AttentionChunk<Numerics::kFma32, PairOperands>>(shape, rows, kv_head, split, result);
  }
  int first = 0;
  for (; first + kRowLanes < total; first += 2 * kRowLanes) {
    PairChunk<2>(shape, rows, kv_head, split, first, std::min(2 * kRowLanes, total - first)).run(result);
  }
  if (first < total) PairChunk<1>(shape, rows, kv_head, split, first, total - first).run(result);
}

}  // namespace
}  // namespace eadem::kernels::cpu
