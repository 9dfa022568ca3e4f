// The mma16 tree for many rows on sm_90. A tile of 128 rows x kColumns outputs belongs to one thread block: a producer
// thread that fills a ring of k blocks (64 wide) by the TMA unit, and two warpgroups that multiply 64 rows each. Blocks
// stay (a persistent grid) and walk the tiles. A wgmma chain over k in steps of 16 is the chain of mma16; where the
// layer has shards each shard is a chain from zero, and the sums of the shard tree are taken in registers in the shadow
// of the next shard's first k block: three accumulators take turns. docs/cuda-prefill.md tells what each choice is
// worth.
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
template <int kColumns_, int kStages_, int kShards_, int kSplit_>
struct WgmmaTile {
  static constexpr int kColumns = kColumns_, kStages = kStages_, kShards = kShards_, kSplit = kSplit_;
  static constexpr int kRegisters = kColumns / 2;  // of an accumulator, a thread's part of 64 x kColumns
  static constexpr int kXBytes = kWgmmaRows * 128, kWeightBytes = kColumns * 128;
  static constexpr int kStageBytes = kXBytes + kWeightBytes;
  static constexpr bool kParks = kShards == 8;  // half of the tree waits in shared memory
  static constexpr bool kBoxes = kShards == 1 && kSplit == 1 && kColumns % 32 == 0;
  static constexpr bool kResidualByRing = kShards > 1 && kSplit == 1;  // where y can be read by boxes
  static constexpr int kExtraBytes = kResidualByRing ? 256 * kRegisters * 4 : kBoxes ? 4 * 64 * 128 : 0;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + kExtraBytes + 256;
  static_assert(kSharedBytes <= 232448 && kStages * 16 <= 256);
};

// Where a block stands.
struct WgmmaBlock {
  uint32_t ring, extra, barriers;  // shared memory; barriers: full[stages], then empty[stages]
  int cluster, clusters;
  uint32_t rank;  // in its cluster
  int part;       // of the shards
};

struct WgmmaPlace {
  int row_tile, column_tile;
};

// A block's tile of its cluster's. In groups of eight row tiles, so that blocks that run together share weights and rows
// in the L2 cache.
EADEM_DEVICE WgmmaPlace place_of(const WgmmaArgs& a, const WgmmaBlock& b, int tile) {
  const int height = min(8, a.row_tiles), group = tile / (height * a.column_tiles);
  const int rest = tile - group * height * a.column_tiles, rows = min(height, a.row_tiles - group * height);
  const int row_tile = group * height + rest % rows, column_tile = rest / rows;
  const int rank = static_cast<int>(b.rank);
  return {a.share == WgmmaShare::kWeights ? 2 * row_tile + rank : row_tile,
          a.share == WgmmaShare::kRows ? 2 * column_tile + rank : column_tile};
}

template <class T>
EADEM_DEVICE void load_weights(const WgmmaArgs& a, const WgmmaBlock& b, uint32_t to, uint32_t barrier, int column_tile,
                               int k_tile) {
  const bool both = a.share == WgmmaShare::kWeights;
  const int part = both ? T::kColumns / 2 : T::kColumns, first = both ? static_cast<int>(b.rank) * part : 0;
  int n = column_tile * T::kColumns + first;
  to += T::kXBytes + first * 128;
#pragma unroll 1
  for (int left = part; left > 0;) {
    const int row = n % kTileRows, count = min(left, kTileRows - row);
    // Outputs beyond the packed matrix repeat its last tile; they are never stored.
    const int64_t tile = static_cast<int64_t>(min(n / kTileRows, a.weight_tiles - 1)) * a.k_tiles + k_tile;
    const std::byte* from = a.weights + (tile * kTileRows + row) * kTileRowBytes;
    if (both) {
      bulk_load_multicast(to, from, count * kTileRowBytes, barrier, 3);
    } else {
      bulk_load(to, from, count * kTileRowBytes, barrier);
    }
    n += count, left -= count, to += count * kTileRowBytes;
  }
}

// One thread. The first weights are asked for before the kernel waits for the one before it in the stream.
template <class T>
struct WgmmaProducer {
  const WgmmaArgs& a;
  const WgmmaBlock& b;
  const CUtensorMap *x, *x_tail, *y;
  uint32_t stage = 0, parity = 1;
  int early = 0;  // stages that have their weights already

  // A box with rows beyond the array is slow, so a tile loads the rows that there are; what lies in shared memory for
  // the others reaches no row but theirs, and they are not stored.
  EADEM_DEVICE uint32_t stage_bytes(int row) const {
    return T::kWeightBytes + max(0, min(kWgmmaRows, a.rows - row)) * 128;
  }
  EADEM_DEVICE void advance() {
    if (++stage == T::kStages) stage = 0, parity ^= 1;
  }
  EADEM_DEVICE void block(const WgmmaPlace& place, int row, int k_tile, int k) {
    const uint32_t to = b.ring + stage * T::kStageBytes, full = b.barriers + 8 * stage;
    if (early > 0) {
      --early;
    } else {
      barrier_poll(full + 8 * T::kStages, parity);
      barrier_expect(full, stage_bytes(row));
      load_weights<T>(a, b, to, full, place.column_tile, k_tile);
    }
    const bool both = a.share == WgmmaShare::kRows;
    for (int half = both ? static_cast<int>(b.rank) : 0; half < 2; half += both ? 2 : 1) {
      const int first = row + 64 * half;
      const CUtensorMap* map = first + 64 <= a.rows ? x : x_tail;
      if (first >= a.rows) continue;
      if (both) {
        tensor_load_multicast(to + half * 8192, map, full, k, first, 3);
      } else {
        tensor_load(to + half * 8192, map, full, k, first);
      }
    }
    advance();
  }
  // y's tile follows the last k block in two stages: 64 columns each, for both warpgroups.
  EADEM_DEVICE void residual(const WgmmaPlace& place, int row) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t to = b.ring + stage * T::kStageBytes, full = b.barriers + 8 * stage;
      barrier_poll(full + 8 * T::kStages, parity);
      barrier_expect(full, 4 * kWgmmaBoxBytes);
      for (int i = 0; i < 4; ++i) {
        const int column = place.column_tile * T::kColumns + half * 64 + i % 2 * kWgmmaBoxColumns;
        tensor_load(to + i * kWgmmaBoxBytes, y, full, column, row + i / 2 * 64);
      }
      advance();
    }
  }
  EADEM_DEVICE void run() {
    const int tiles = a.row_tiles * a.column_tiles, first_shard = b.part * T::kShards;
    const WgmmaPlace first = place_of(a, b, b.cluster);
    const int count = min(T::kStages, a.shard_tiles * T::kShards);
    for (int i = 0; i < count; ++i) {
      barrier_expect(b.barriers + 8 * i, stage_bytes(first.row_tile * kWgmmaRows));
      load_weights<T>(a, b, b.ring + i * T::kStageBytes, b.barriers + 8 * i, first.column_tile,
                      first_shard * a.shard_tiles + i);
    }
    early = count;
    wait_for_prerequisites();
    for (int tile = b.cluster; tile < tiles; tile += b.clusters) {
      const WgmmaPlace place = place_of(a, b, tile);
      const int row = place.row_tile * kWgmmaRows;
      for (int shard = first_shard; shard < first_shard + T::kShards; ++shard) {
        for (int i = 0; i < a.shard_tiles; ++i) {
          block(place, row, shard * a.shard_tiles + i, shard * a.shard_k + i * kWgmmaK);
        }
      }
      if (T::kResidualByRing && a.boxes && a.add_to_y) residual(place, row);
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
    if (a.share != WgmmaShare::kNothing) {
      if (thread < 2) barrier_arrive_at(empty, thread);
    } else if (thread == 0) {
      barrier_arrive(empty);
    }
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
