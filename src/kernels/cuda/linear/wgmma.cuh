// The mma16 tree for many rows on sm_90. A tile of 128 rows x kColumns outputs belongs to one thread block: two threads
// that fill a ring of k blocks (64 wide) by the TMA unit, and two warpgroups that multiply 64 rows each (tiles of 64
// rows: one). Blocks stay (a persistent grid) and walk the tiles. A wgmma chain over k in steps of 16 is the chain of
// mma16; where the layer has shards each shard is a chain from zero, and the sums of the shard tree are taken in
// registers in the shadow of the next shard's first k block: three accumulators take turns. docs/cuda-prefill.md tells
// what each choice is worth.
//
// What ptxas punishes by serialising every wgmma (its notes C7511, C7512): a copy of an accumulator that may share its
// registers, an accumulator read as integers, a sum that sinks below the next wgmma. Hence arrays that rotate by name,
// `pin`, and no branch in an epilogue that runs beside a wgmma.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/wgmma_launch.h"
#include "numerics/ieee.h"

namespace eadem::kernels::cuda {

// kShards: shards of the layer that one block evaluates; kSplit: blocks of a cluster that take them in equal parts.
// kGroups: warpgroups that multiply. kGated: the layer is gates stacked on ups; a tile has half of its columns from
// either, and gives SwiGLU's operands.
template <int kColumns_, int kStages_, int kShards_, int kSplit_, int kGroups_ = 2, bool kGated_ = false>
struct WgmmaTile {
  static constexpr int kGroups = kGroups_, kRows = 64 * kGroups, kThreads = 128 + 128 * kGroups;
  static constexpr int kColumns = kColumns_, kStages = kStages_, kShards = kShards_, kSplit = kSplit_;
  static constexpr bool kGated = kGated_;
  static constexpr int kOutputs = kGated ? kColumns / 2 : kColumns;  // columns of y
  static constexpr int kRegisters = kColumns / 2;  // of an accumulator, a thread's part of 64 x kColumns
  static constexpr int kXBytes = kRows * 128, kWeightBytes = kColumns * 128;
  static constexpr int kStageBytes = kXBytes + kWeightBytes;
  static constexpr bool kParks = kShards == 8;  // half of the tree waits in shared memory
  static constexpr bool kBoxes = kShards == 1 && kSplit == 1 && kColumns % 32 == 0;
  static constexpr bool kResidualByRing = kShards > 1 && kSplit == 1;  // where y can be read by boxes
  static constexpr int kExtraBytes = kResidualByRing ? 256 * kRegisters * 4 : kBoxes ? kGroups * 2 * kWgmmaBoxBytes : 0;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + kExtraBytes + 256;
  static_assert(kSharedBytes <= 232448 && kStages * 16 <= 256);
  static_assert(!kResidualByRing || kGroups == 2);
  static_assert(!kGated || (kColumns == 2 * kTileRows && kBoxes));  // a packed tile of gates, one of ups
};

// Where a block stands.
struct WgmmaBlock {
  uint32_t ring, extra, barriers;  // shared memory; barriers: full[stages], then empty[stages]
  int cluster, clusters;
  int part;  // of the shards, in a cluster
};

struct WgmmaPlace {
  int row_tile, column_tile;
};

// In groups of eight row tiles, so that blocks that run together share weights and rows in the L2 cache.
EADEM_DEVICE WgmmaPlace place_of(const WgmmaArgs& a, int tile) {
  const int height = min(8, a.row_tiles), group = tile / (height * a.column_tiles);
  const int rest = tile - group * height * a.column_tiles, rows = min(height, a.row_tiles - group * height);
  return {group * height + rest % rows, rest / rows};
}

// A thread that fills the ring. What it does for a k block must be short: one thread has the latency of each of its
// instructions, and a small tile's k block lasts 400 cycles. So one thread brings weights and another one rows.
template <class T>
struct WgmmaLoader {
  const WgmmaArgs& a;
  const WgmmaBlock& b;
  uint32_t stage = 0, parity = 1;

  EADEM_DEVICE uint32_t full() const { return b.barriers + 8 * stage; }
  EADEM_DEVICE uint32_t place() const { return b.ring + stage * T::kStageBytes; }
  EADEM_DEVICE void wait_empty() const { barrier_poll(b.barriers + 8 * (T::kStages + stage), parity); }
  EADEM_DEVICE void advance() {
    if (++stage == T::kStages) stage = 0, parity ^= 1;
  }
  // y's tile follows the last k block in two stages.
  EADEM_DEVICE bool residual() const { return T::kResidualByRing && a.boxes && a.add_to_y; }

  // The packed rows of outputs n ..., from the block's first k block on; beyond the matrix those of its last tile,
  // whose results are never stored.
  EADEM_DEVICE const std::byte* weights_at(int n) const {
    const int64_t tile = static_cast<int64_t>(min(n / kTileRows, a.weight_tiles - 1)) * a.k_tiles;
    return a.weights + ((tile + b.part * T::kShards * a.shard_tiles) * kTileRows + n % kTileRows) * kTileRowBytes;
  }
  // Waits for nothing in the stream: weights are nobody's results.
  EADEM_DEVICE void weights() {
    const int tiles = a.row_tiles * a.column_tiles, blocks = a.shard_tiles * T::kShards;
    for (int tile = b.cluster; tile < tiles; tile += b.clusters) {
      const int n = place_of(a, tile).column_tile * T::kOutputs;
      const int upper = min(T::kColumns, kTileRows - n % kTileRows);  // rows in the first of at most two packed tiles
      const uint32_t upper_bytes = upper * kTileRowBytes, lower_bytes = T::kWeightBytes - upper_bytes;
      const std::byte *from = weights_at(n), *below = weights_at(T::kGated ? a.n / 2 + n : n + upper);
#pragma unroll 1
      for (int block = 0; block < blocks; ++block, from += kTileBytes, below += kTileBytes) {
        wait_empty();
        barrier_expect(full(), T::kWeightBytes);
        const uint32_t to = place() + T::kXBytes;
        bulk_load(to, from, upper_bytes, full());
        if (lower_bytes > 0) bulk_load(to + upper_bytes, below, lower_bytes, full());
        advance();
      }
      for (int i = 0; residual() && i < 2; ++i) {
        wait_empty();
        barrier_arrive(full());
        advance();
      }
    }
  }

  // Boxes have the rows that there are: one with rows beyond the array is slow. What lies in shared memory for the
  // others reaches no row but theirs, and they are not stored.
  EADEM_DEVICE void rows(const CUtensorMap* x, const CUtensorMap* x_tail, const CUtensorMap* y) {
    const int tiles = a.row_tiles * a.column_tiles;
    for (int tile = b.cluster; tile < tiles; tile += b.clusters) {
      const WgmmaPlace at = place_of(a, tile);
      const int row = at.row_tile * T::kRows, height = min(T::kRows, a.rows - row);
      const CUtensorMap* map = height == T::kRows ? x : x_tail;
      for (int shard = b.part * T::kShards; shard < (b.part + 1) * T::kShards; ++shard) {
        int k = shard * a.shard_k;
#pragma unroll 1
        for (int block = 0; block < a.shard_tiles; ++block, k += kWgmmaK) {
          wait_empty();
          barrier_expect(full(), height * 128);
          tensor_load(place(), map, full(), k, row);
          advance();
        }
      }
      for (int half = 0; residual() && half < 2; ++half) {  // 64 columns each, for both warpgroups
        wait_empty();
        barrier_expect(full(), 4 * kWgmmaBoxBytes);
        for (int i = 0; i < 4; ++i) {
          const int column = at.column_tile * T::kColumns + half * 64 + i % 2 * kWgmmaBoxColumns;
          tensor_load(place() + i * kWgmmaBoxBytes, y, full(), column, row + i / 2 * 64);
        }
        advance();
      }
    }
  }
};

// A warpgroup that multiplies. Its methods keep at most two k blocks in flight.
template <class T>
struct WgmmaConsumer {
  static constexpr int kRegisters = T::kRegisters;
  using Accumulator = float[kRegisters];

  const WgmmaArgs& a;
  const WgmmaBlock& b;
  const CUtensorMap* y_map;
  int group, thread;  // 0 or 1; 0 ... 127
  uint32_t stage = 0, parity = 0, previous = 0;
  int boxes = 0;  // stored from shared memory so far

  EADEM_DEVICE void issue(Accumulator& d, bool from_zero) {
    barrier_poll(b.barriers + 8 * stage, parity);
    wgmma_fence();
    const uint32_t at = b.ring + stage * T::kStageBytes;
    const uint32_t x = (at + group * 8192) >> 4 | 1u << 16, w = (at + T::kXBytes) >> 4 | 1u << 16;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      Wgmma<T::kColumns>::shared(d, matrix_descriptor(x + 2 * k), matrix_descriptor(w + 2 * k), k > 0 || !from_zero);
    }
    wgmma_commit();
  }
  EADEM_DEVICE void release() {
    const uint32_t empty = b.barriers + 8 * (T::kStages + previous);
    group_arrive(empty, thread == 0);
  }
  EADEM_DEVICE void advance() {
    previous = stage;
    if (++stage == T::kStages) stage = 0, parity ^= 1;
  }
  EADEM_DEVICE void rest(Accumulator& d) {
#pragma unroll 1
    for (int block = 1; block < a.shard_tiles; ++block) {
      issue(d, false);
      wgmma_wait<1>();
      release();
      advance();
    }
  }
  // A shard into d with nothing in flight before it; `beside` runs beside its first k block.
  template <class F>
  EADEM_DEVICE void start(Accumulator& d, F&& beside) {
    issue(d, true);
    advance();
    beside();
    rest(d);
  }
  // A shard into d right behind the one into `before`, which is complete when `beside` runs.
  template <class F>
  EADEM_DEVICE void follow(Accumulator& d, Accumulator& before, F&& beside) {
    issue(d, true);
    wgmma_wait<1>();
    release();
    advance();
    pin(before);
    beside();
    rest(d);
  }
  EADEM_DEVICE void drain(Accumulator& d) {
    wgmma_wait<0>();
    release();
    pin(d);
  }
};

// d = d + e, each sum kept where it stands: one that sinks below the next wgmma would need a copy of e.
template <int kCount>
EADEM_DEVICE void add_into(float (&d)[kCount], float (&e)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    d[i] = numerics::add_f32(d[i], e[i]);
    asm volatile("" : "+f"(d[i]));
  }
}
template <int kCount>
EADEM_DEVICE void park(float (&d)[kCount], uint32_t at) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) shared_store(at + i / 4 * 2048, d[i], d[i + 1], d[i + 2], d[i + 3]);
}
// d = parked + d.
template <int kCount>
EADEM_DEVICE void add_parked(float (&d)[kCount], uint32_t at) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 v = shared_load(at + i / 4 * 2048);
    d[i] = numerics::add_f32(v.x, d[i]);
    d[i + 1] = numerics::add_f32(v.y, d[i + 1]);
    d[i + 2] = numerics::add_f32(v.z, d[i + 2]);
    d[i + 3] = numerics::add_f32(v.w, d[i + 3]);
    asm volatile("" : "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]));
  }
}

}  // namespace eadem::kernels::cuda
