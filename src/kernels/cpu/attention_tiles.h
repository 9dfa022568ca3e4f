// fma32's attention on AMX tiles. A tile product of 16 keys (or 16 elements of the values) x 16 rows and heads is one
// leaf of 256 chains; between the products, rows and heads are the lanes of cpu/attention_lanes.h.
//
// A KV block is K, [64 keys][head_padded], and then V transposed, [elements, padded to 16][64 keys]: both are read as
// tiles of 16 lines x 32 operands where they lie. The other side's tiles, [16 pairs][16 rows and heads][2], are q,
// packed once a call, and the weights, as the lanes write them. O is [elements][16 lanes] until the split's end.
//
// The products run in a unit of their own. So that it has work while vectors weigh keys, the scores of the next block
// (or of the next 16 lanes) are asked for before the weights of this one.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_lanes.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kKeyTiles = kKvBlock / kTileRows;
inline constexpr int kLaneWords = kTileRows * kRowLanes;  // 32-bit words of a tile whose lines are 16 lanes
inline constexpr size_t kValueLineBytes = kKvBlock * sizeof(uint16_t);

EADEM_FN size_t key_line_bytes(const AttentionShape& shape) { return static_cast<size_t>(shape.head_padded) * 2; }
EADEM_FN int value_tiles(const AttentionShape& shape) { return (shape.head_size + kTileRows - 1) / kTileRows; }

// The other tree has no tiles: it keeps the panels of cpu/attention.h.
EADEM_FN bool has_tiles(const AttentionShape& shape) { return shape.numerics == Numerics::kFma32; }

EADEM_FN size_t tile_kv_bytes(const AttentionShape& shape) {
  if (!has_tiles(shape)) return kv_bytes(shape);
  return kKvBlock * key_line_bytes(shape) + static_cast<size_t>(value_tiles(shape) * kTileRows) * kValueLineBytes;
}

EADEM_FN void tile_kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k,
                            const uint16_t* v) {
  if (!has_tiles(shape)) return kv_write(shape, block, slot, k, v);
  auto* operands = reinterpret_cast<uint16_t*>(block);
  std::copy_n(k, shape.head_size, operands + slot * shape.head_padded);
  uint16_t* values = operands + kKvBlock * shape.head_padded + slot;
  for (int d = 0; d < shape.head_size; ++d) values[d * kKvBlock] = v[d];
}

EADEM_FN void tile_kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
  if (!has_tiles(shape)) return kv_read(shape, block, slot, k, v);
  const auto* operands = reinterpret_cast<const uint16_t*>(block);
  std::copy_n(operands + slot * shape.head_padded, shape.head_size, k);
  const uint16_t* values = operands + kKvBlock * shape.head_padded + slot;
  for (int d = 0; d < shape.head_size; ++d) v[d] = values[d * kKvBlock];
}

// scores[64 keys][16 lanes] of a block; q: tiles, one a leaf of the head.
EADEM_FN void score_tiles(const AttentionShape& shape, const std::byte* keys, const uint32_t* q, float* scores) {
  const size_t line = key_line_bytes(shape), tile = kTileRows * line;
  tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  for (int leaf = 0; leaf < shape.head_padded / numerics::kLeaf; ++leaf, keys += kTileRowBytes, q += kLaneWords) {
    tile_load<4>(q);
    tile_load<5>(keys, line);
    tile_bf16_leaf<0, 5, 4>();
    tile_load<6>(keys + tile, line);
    tile_bf16_leaf<1, 6, 4>();
    tile_load<7>(keys + 2 * tile, line);
    tile_bf16_leaf<2, 7, 4>();
    tile_load<5>(keys + 3 * tile, line);
    tile_bf16_leaf<3, 5, 4>();
  }
  tile_store<0>(scores), tile_store<1>(scores + kLaneWords);
  tile_store<2>(scores + 2 * kLaneWords), tile_store<3>(scores + 3 * kLaneWords);
}

// Four tiles of O go on over both leaves of a block; the weights are in tiles 4 and 5.
EADEM_FN void output_tiles4(const std::byte* values, float* o) {
  constexpr size_t kTile = kTileRows * kValueLineBytes;
  tile_load<0>(o), tile_load<1>(o + kLaneWords), tile_load<2>(o + 2 * kLaneWords), tile_load<3>(o + 3 * kLaneWords);
  tile_load<6>(values, kValueLineBytes);
  tile_bf16_leaf<0, 6, 4>();
  tile_load<7>(values + kTile, kValueLineBytes);
  tile_bf16_leaf<1, 7, 4>();
  tile_load<6>(values + 2 * kTile, kValueLineBytes);
  tile_bf16_leaf<2, 6, 4>();
  tile_load<7>(values + 3 * kTile, kValueLineBytes);
  tile_bf16_leaf<3, 7, 4>();
  tile_load<6>(values + kTileRowBytes, kValueLineBytes);
  tile_bf16_leaf<0, 6, 5>();
  tile_load<7>(values + kTileRowBytes + kTile, kValueLineBytes);
  tile_bf16_leaf<1, 7, 5>();
  tile_load<6>(values + kTileRowBytes + 2 * kTile, kValueLineBytes);
  tile_bf16_leaf<2, 6, 5>();
  tile_load<7>(values + kTileRowBytes + 3 * kTile, kValueLineBytes);
  tile_bf16_leaf<3, 7, 5>();
  tile_store<0>(o), tile_store<1>(o + kLaneWords), tile_store<2>(o + 2 * kLaneWords), tile_store<3>(o + 3 * kLaneWords);
}

EADEM_FN void output_tile1(const std::byte* values, float* o) {
  tile_load<0>(o);
  tile_load<6>(values, kValueLineBytes);
  tile_bf16_leaf<0, 6, 4>();
  tile_load<7>(values + kTileRowBytes, kValueLineBytes);
  tile_bf16_leaf<0, 7, 5>();
  tile_store<0>(o);
}

EADEM_FN void output_tiles(int tiles, const std::byte* values, const uint32_t* weights, float* o) {
  static_assert(kKvBlock == 2 * numerics::kLeaf);
  constexpr size_t kTile = kTileRows * kValueLineBytes;
  tile_load<4>(weights), tile_load<5>(weights + kLaneWords);
  int tile = 0;
  for (; tile + 4 <= tiles; tile += 4) output_tiles4(values + tile * kTile, o + tile * kLaneWords);
  for (; tile < tiles; ++tile) output_tile1(values + tile * kTile, o + tile * kLaneWords);
}

// Up to 64 rows x heads that walk the blocks of a split together, 16 at a time.
class TileChunk {
 public:
  static constexpr int kTiles = 4, kLanes = kTiles * kRowLanes;

  // Rows x heads [first, first + count) of the call.
  TileChunk(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split, int first, int count)
      : shape_(shape), rows_(rows), kv_head_(kv_head), split_(split), first_(first), count_(count) {
    tiles_ = (count + kRowLanes - 1) / kRowLanes;
    for (int t = 0; t < tiles_; ++t) {
      lanes_[t] = start_lanes(shape, rows, split, first + t * kRowLanes, lanes_of(t));
      low_ = std::min(low_, lanes_[t].first);
      high_ = std::max(high_, lanes_[t].last);
      pack_queries(t);
    }
    std::fill_n(o_, tiles_ * o_stride(), 0.0f);
  }

  void run(const SplitResult& result) {
    Step step = next({low_ / kKvBlock, -1});
    if (!step.end) score(step, scores_[0]);
    for (int turn = 0; !step.end; ++turn) {
      const Step later = next(step);
      if (!later.end) score(later, scores_[(turn + 1) % 2]);
      weigh(step, scores_[turn % 2], result.bad);
      output_tiles(value_tiles(shape_), block(step.block) + kKvBlock * key_line_bytes(shape_), weights_,
                   o_ + step.tile * o_stride());
      step = later;
    }
    for (int t = 0; t < tiles_; ++t) finish(t, result);
  }

 private:
  // A block of the split and 16 lanes that see some of it.
  struct Step {
    int block, tile;
    bool end = false;
  };

  Step next(Step step) const {
    for (;;) {
      if (++step.tile == tiles_) step.tile = 0, ++step.block;
      if (step.block * kKvBlock >= high_) return {0, 0, true};
      if (lanes_[step.tile].sees(step.block * kKvBlock)) return step;
    }
  }

  int lanes_of(int t) const { return std::min(kRowLanes, count_ - t * kRowLanes); }
  int o_stride() const { return shape_.head_padded * kRowLanes; }
  int q_stride() const { return shape_.head_padded / 2 * kRowLanes; }
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
      transpose_words(lines, kTileRows, lanes_of(t), q_ + t * q_stride() + word * kRowLanes, kRowLanes, kTileRows);
    }
  }

  void score(const Step& step, float* scores) const {
    score_tiles(shape_, block(step.block), q_ + step.tile * q_stride(), scores);
  }

  void weigh(const Step& step, float* scores, bool* bad) {
    LaneRows& lanes = lanes_[step.tile];
    const int key = step.block * kKvBlock;
    if (!lanes.all_see(key)) hide_keys(lanes, key, scores);
    const LaneStep moved = move_references(largest_score(scores), shape_.c, lanes.m);
    if (any(moved.rescale)) rescale_lanes(moved, shape_.head_padded, o_ + step.tile * o_stride());
    if (moved.bad != 0) flag(step.tile, moved.bad, bad);
    uint32_t* const weights = weights_;
    const auto put = [weights](int pair, Vec low, Vec high) {
      operand_words(low, high).store(weights + pair * kRowLanes);
    };
    // Scores run a block ahead of the weights, so keys are asked for two blocks ahead.
    const bool first = step.tile == 0, keys = first && key + 2 * kKvBlock < high_,
               values = first && key + kKvBlock < high_;
    const size_t key_bytes = kKvBlock * key_line_bytes(shape_), eighth = key_bytes / 8;
    const std::byte* const k = keys ? block(step.block + 2) : nullptr;
    const std::byte* const v = values ? block(step.block + 1) + key_bytes : nullptr;
    weigh_lanes(scores, shape_.c, moved, lanes.l, put, [=](int part) {
      if (keys) prefetch_lines(k + static_cast<size_t>(part) * eighth, eighth);
      if (values) prefetch_lines(v + static_cast<size_t>(part) * eighth, eighth);
    });
  }

  EADEM_LANE static void prefetch_lines(const std::byte* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
  }

  void flag(int t, uint16_t lanes, bool* bad) const {
    for (int i = 0; i < lanes_of(t); ++i) {
      if (lanes >> i & 1) bad[(first_ + t * kRowLanes + i) / shape_.group()] = true;
    }
  }

  void finish(int t, const SplitResult& result) const {
    const int at = first_ + t * kRowLanes, count = lanes_of(t), head = shape_.head_padded;
    const LaneRows& lanes = lanes_[t];
    alignas(64) float m[kRowLanes], l[kRowLanes];
    lanes.m.store(m);
    add(add(lanes.l[0], lanes.l[1]), add(lanes.l[2], lanes.l[3])).store(l);
    std::copy_n(m, count, result.m + at);
    std::copy_n(l, count, result.l + at);
    const float* o = o_ + t * o_stride();
    for (int d = 0; d < head; d += kRowLanes) {
      transpose_words(o + d * kRowLanes, kRowLanes, kRowLanes, result.o + static_cast<int64_t>(at) * head + d, head,
                      count);
    }
  }

  const AttentionShape& shape_;
  const AttentionRows& rows_;
  int kv_head_;
  int64_t split_;
  int first_, count_, tiles_;
  int low_ = kSplit, high_ = 0;  // the split's keys that some row sees
  LaneRows lanes_[kTiles];
  alignas(64) float scores_[2][kKvBlock * kRowLanes];
  alignas(64) uint32_t weights_[kKvBlock / 2 * kRowLanes];
  alignas(64) uint32_t q_[kTiles * kMaxHead / 2 * kRowLanes];
  alignas(64) float o_[kTiles * kMaxHead * kRowLanes];
};

EADEM_FN void tile_attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                                   const SplitResult& result) {
  if (!has_tiles(shape)) return attention_split(shape, rows, kv_head, split, result);
  count_call();
  configure_tiles();
  const int total = rows.rows * shape.group();
  for (int first = 0; first < total; first += TileChunk::kLanes) {
    TileChunk chunk(shape, rows, kv_head, split, first, std::min(TileChunk::kLanes, total - first));
    chunk.run(result);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
