// fma32's attention on AMX tiles. A tile product of 16 keys (or 16 elements of the values) x 16 rows and heads is one
// leaf of 256 chains; between the products, rows and heads are the lanes of cpu/attention_lanes.h.
//
// A KV block is K, a tile [16 keys][32 elements] for each 16 keys and leaf of the head, and then V transposed, a tile
// [16 elements][32 keys] for each 16 elements and leaf of the block: contiguous, since a tile's lines come from the
// second-level cache at half the rate where they lie 128 bytes apart. The other side's tiles, [16 pairs][16 rows and
// heads][2], are q, packed once a call, and the weights, as the lanes write them. O is [elements][16 lanes] until the
// split's end.
//
// The products run in a unit of their own, which has work while vectors weigh a block's keys: the scores of the next
// block (or of the next 16 lanes) and the outputs of the one before.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_lanes.h"
#include "kernels/cpu/kv_tiles.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

// Products work on kLanes times 16 rows and heads, 1 or 2: the tile of keys or values then serves both. What they
// write stays in tiles 0 and 1 while vectors work, and is stored when the next product is about to begin: a store that
// waited for its product would hold up everything behind it.

// Scores of a tile of keys. q: [leaf][16 pairs][16 lanes] words; q_step: words from the first 16 lanes to the second.
template <int kLanes>
EADEM_LANE void begin_scores(int leaves, const std::byte* keys, const uint32_t* q, int q_step) {
  tile_zero<0>(), tile_zero<1>();
  for (int leaf = 0; leaf < leaves; ++leaf, keys += kTileBytes, q += kLaneWords) {
    tile_load<2>(keys);
    tile_load<4>(q);
    tile_bf16_leaf<0, 2, 4>();
    if constexpr (kLanes == 1) continue;
    tile_load<5>(q + q_step);
    tile_bf16_leaf<1, 2, 5>();
  }
}

// The weights of a block: tiles 4 and 5 for the first 16 lanes, 6 and 7 for the second.
template <int kLanes>
EADEM_LANE void load_weights(const uint32_t* weights) {
  tile_load<4>(weights), tile_load<5>(weights + kLaneWords);
  if constexpr (kLanes == 2) tile_load<6>(weights + 2 * kLaneWords), tile_load<7>(weights + 3 * kLaneWords);
}

// A tile of O goes on over both leaves of a block.
template <int kLanes>
EADEM_LANE void begin_output(const std::byte* values, const float* o, int o_step) {
  tile_load<0>(o);
  tile_load<2>(values);
  tile_bf16_leaf<0, 2, 4>();
  if constexpr (kLanes == 2) {
    tile_load<1>(o + o_step);
    tile_bf16_leaf<1, 2, 6>();
  }
  tile_load<3>(values + kTileBytes);
  tile_bf16_leaf<0, 3, 5>();
  if constexpr (kLanes == 2) tile_bf16_leaf<1, 3, 7>();
}

template <int kLanes>
EADEM_LANE void end_product(float* to, int step) {
  tile_store<0>(to);
  if constexpr (kLanes == 2) tile_store<1>(to + step);
}

// Up to 16 kLanes rows x heads that walk the blocks of a split together.
template <int kLanes>
class TileChunk {
 public:
  // Rows x heads [first, first + count) of the call.
  TileChunk(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split, int first, int count)
      : shape_(shape), rows_(rows), kv_head_(kv_head), split_(split), first_(first), count_(count) {
    for (int t = 0; t < kLanes; ++t) {
      lanes_[t] = start_lanes(shape, rows, split, first + t * kRowLanes, lanes_of(t));
      pack_queries(t);
    }
    int low = lanes_[0].first, high = lanes_[0].last;
    for (const LaneRows& lanes : lanes_) low = std::min(low, lanes.first), high = std::max(high, lanes.last);
    begin_ = low / kKvBlock, end_ = (high + kKvBlock - 1) / kKvBlock;
    std::fill_n(o_, kLanes * o_step(), 0.0f);
  }

  void run(const SplitResult& result) {
    if (begin_ < end_) {
      for (int part = 0; part < kKeyTiles; ++part) begin_score(begin_, part), end_score(part, 0);
      for (int t = 0; t < kLanes; ++t) look(begin_, t, 0);
    }
    for (int b = begin_; b < end_; ++b) weigh(b, (b - begin_) % 2, result.bad);
    if (begin_ < end_) output(end_ - 1, (end_ - 1 - begin_) % 2);
    for (int t = 0; t < kLanes; ++t) {
      finish_lanes(lanes_[t], o_ + t * o_step(), shape_.head_padded, first_ + t * kRowLanes, lanes_of(t), result);
    }
  }

 private:
  static constexpr int kScores = kKvBlock * kRowLanes;       // floats of a block and 16 lanes
  static constexpr int kWeights = kKvBlock / 2 * kRowLanes;  // words

  int lanes_of(int t) const { return std::min(kRowLanes, count_ - t * kRowLanes); }
  int o_step() const { return shape_.head_padded * kRowLanes; }
  int q_step() const { return shape_.head_padded / 2 * kRowLanes; }
  const std::byte* block(int b) const { return rows_.kv.block(split_ * (kSplit / kKvBlock) + b, kv_head_); }

  void pack_queries(int t) {
    const int group = shape_.group(), words = shape_.head_padded / 2;
    for (int word = 0; word < words; word += kTileRows) {
      alignas(64) uint32_t lines[kRowLanes][kTileRows];
      for (int i = 0; i < lanes_of(t); ++i) {
        const int at = first_ + t * kRowLanes + i;
        const int64_t head = static_cast<int64_t>(at / group) * shape_.heads + kv_head_ * group + at % group;
        memcpy(lines[i], rows_.q + head * shape_.head_padded + 2 * word, sizeof lines[i]);
      }
      transpose_words(lines, kTileRows, lanes_of(t), q_ + t * q_step() + word * kRowLanes, kRowLanes, kTileRows);
    }
  }

  // A block's scores come in four parts, and so does what it adds to O; `turn`: which of two buffers is the block's.
  EADEM_LANE void begin_score(int b, int part) const {
    const int leaves = key_leaves(shape_);
    begin_scores<kLanes>(leaves, block(b) + static_cast<size_t>(part * leaves) * kTileBytes, q_, q_step());
  }
  EADEM_LANE void end_score(int part, int turn) { end_product<kLanes>(scores_[turn] + part * kLaneWords, kScores); }

  // The largest scores of 16 lanes, once what they do not see is hidden.
  EADEM_LANE void look(int b, int t, int turn) {
    largest_[t] = largest_seen(lanes_[t], b * kKvBlock, scores_[turn] + t * kScores);
  }

  // The last tile of a part waits for end_part.
  int part_end(int part) const { return (part + 1) * value_tiles(shape_) / 4; }
  EADEM_LANE void begin_part(int b, int part, int turn) {
    if (part == 0) load_weights<kLanes>(weights_[turn]);
    const std::byte* const values = block(b) + tile_key_bytes(shape_);
    for (int tile = part_end(part - 1); tile < part_end(part); ++tile) {
      begin_output<kLanes>(values + static_cast<size_t>(2 * tile) * kTileBytes, o_ + tile * kLaneWords, o_step());
      if (tile + 1 < part_end(part)) end_product<kLanes>(o_ + tile * kLaneWords, o_step());
    }
  }
  EADEM_LANE void end_part(int part) {
    const int tile = part_end(part) - 1;
    if (tile >= part_end(part - 1)) end_product<kLanes>(o_ + tile * kLaneWords, o_step());
  }
  void output(int b, int turn) {
    for (int part = 0; part < 4; ++part) begin_part(b, part, turn), end_part(part);
  }

  // Weighs the keys of block b; beside it the products of its neighbours: the scores of the next block, then the
  // outputs of the one before.
  void weigh(int b, int turn, bool* bad) {
    LaneStep moved[kLanes];
    bool rescales = false;
    for (int t = 0; t < kLanes; ++t) {
      moved[t] = move_references(largest_[t], shape_.c, lanes_[t].m);
      rescales |= any(moved[t].rescale);
      flag_rows(moved[t], shape_.group(), first_ + t * kRowLanes, lanes_of(t), bad);
    }
    bool waiting = b > begin_;
    if (rescales) {
      if (waiting) output(b - 1, 1 - turn);
      waiting = false;
      for (int t = 0; t < kLanes; ++t) rescale_lanes(moved[t], shape_.head_padded, o_ + t * o_step());
    }
    const Fetch fetch(*this, b);
    const bool more = b + 1 < end_;
#pragma GCC unroll 1
    for (int t = 0; t < kLanes; ++t) {
      uint32_t* const weights = weights_[turn] + t * kWeights;
      const auto put = [weights](int pair, Vec low, Vec high) {
        operand_words(low, high).store(weights + pair * kRowLanes);
      };
      weigh_lanes(scores_[turn] + t * kScores, shape_.c, moved[t], lanes_[t].l, put, [&](int eighth) {
        const int at = t * 8 + eighth;
        if (eighth < 8) fetch.part(at);
        if (at % kLanes == 0 && (eighth < 8 || t + 1 == kLanes)) beside(b, at / kLanes, 1 - turn, more, waiting);
      });
    }
  }

  // What is done at eighths 0 .. 8 of the time that weighing block b takes.
  EADEM_LANE void beside(int b, int eighth, int turn, bool more, bool waiting) {
    if (more) {
      if (eighth >= 1 && eighth <= 4) end_score(eighth - 1, turn);
      if (eighth < 4) begin_score(b + 1, eighth);
      if (eighth >= 6 && eighth < 6 + kLanes) look(b + 1, eighth - 6, turn);
    }
    if (waiting) {
      if (eighth >= 5) end_part(eighth - 5);
      if (eighth >= 4 && eighth < 8) begin_part(b - 1, eighth - 4, turn);
    }
  }

  // What the next blocks read is asked for in parts: the values of this block, the keys of the one after the next,
  // whose scores come first.
  struct Fetch {
    const std::byte* keys = nullptr;
    const std::byte* values = nullptr;
    size_t key_part = 0, value_part = 0;

    Fetch(const TileChunk& chunk, int b) {
      const size_t key_bytes = tile_key_bytes(chunk.shape_);
      values = chunk.block(b) + key_bytes;
      value_part = (tile_kv_bytes(chunk.shape_) - key_bytes) / (8 * kLanes);
      if (b + 2 >= chunk.end_) return;
      keys = chunk.block(b + 2);
      key_part = key_bytes / (8 * kLanes);
    }
    EADEM_LANE void part(int i) const {
      for (size_t at = 0; at < value_part; at += 64)
        __builtin_prefetch(values + static_cast<size_t>(i) * value_part + at);
      for (size_t at = 0; at < key_part; at += 64) __builtin_prefetch(keys + static_cast<size_t>(i) * key_part + at);
    }
  };

  const AttentionShape& shape_;
  const AttentionRows& rows_;
  int kv_head_;
  int64_t split_;
  int first_, count_;
  int begin_, end_;  // the blocks of the split of which some row sees a key
  LaneRows lanes_[kLanes];
  Vec largest_[kLanes];
  alignas(64) float scores_[2][kLanes * kScores];
  alignas(64) uint32_t weights_[2][kLanes * kWeights];
  alignas(64) uint32_t q_[kLanes * kMaxHead / 2 * kRowLanes];
  alignas(64) float o_[kLanes * kMaxHead * kRowLanes];
};

EADEM_FN void tile_attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                                   const SplitResult& result) {
  if (!has_tiles(shape)) return attention_split(shape, rows, kv_head, split, result);
  count_call();
  configure_tiles();
  const int total = rows.rows * shape.group();
  int first = 0;
  for (; first + kRowLanes < total; first += 2 * kRowLanes) {
    TileChunk<2>(shape, rows, kv_head, split, first, std::min(2 * kRowLanes, total - first)).run(result);
  }
  if (first < total) TileChunk<1>(shape, rows, kv_head, split, first, total - first).run(result);
}

}  // namespace
}  // namespace eadem::kernels::cpu
