// Attention of up to 16 row-heads at a time (rows of a sequence x query heads of a KV head's group) over one split of
// the keys: the unit of work. How keys are cut into splits is told by a `Cut`: the contract's (ContractCut) or free
// order's (free/splits.cu). A persistent grid walks the units. A block of threads is four warps that compute, one
// that feeds them queries and whole KV blocks by bulk copies, several in flight, across the borders of units too, and
// one that joins: units of a row with several splits leave partial results, and whoever comes last puts them together
// in ascending order. So nothing that computes ever waits for device memory.
#pragma once

#include <algorithm>

#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/counts.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/device.h"
#include "numerics/attention.h"

namespace eadem::kernels::cuda {

inline constexpr int kRowHeads = 16;  // of a unit: the rows of one MMA
inline constexpr int kComputeThreads = 128;
inline constexpr int kComputeWarps = kComputeThreads / 32;
inline constexpr int kSplitThreads = kComputeThreads + 64;
inline constexpr int kMaxTiles = 256;  // of a launch

// One launch. A tile is up to tile_rows neighbouring rows of one sequence; tile_rows * group <= 16, or one row whose
// group is cut into `chunks` of 16 heads.
struct SplitWork {
  AttentionShape shape;
  DeviceAttentionCall call;
  int group = 1;  // of the shape
  int tiles = 0, tile_rows = 1, chunks = 1;
  bool single_rows = true;  // tile t is row first_row + t; else tile[t] tells
  int first_row = 0;
  float* parts = nullptr;         // [units][part_floats] partial results
  uint32_t* counters = nullptr;   // [tiles][chunks][kv_heads], zeros before and after
  uint32_t tile[kMaxTiles] = {};  // row | rows << 24
};

// Row-heads of a launch's largest unit, and floats of a partial result: o of each row-head (whole tiles of 64), m, l,
// and what keeps the next at a multiple of 16 bytes.
__device__ __forceinline__ int part_heads(const SplitWork& work) {
  return work.chunks > 1 ? kRowHeads : work.tile_rows * work.group;
}
EADEM_FN int part_floats(int heads, int head_elements) { return heads * (head_elements + 4); }

struct PartView {
  float *o, *m, *l;
};
__device__ __forceinline__ PartView part_view(const SplitWork& work, int unit, int head_elements) {
  const int heads = part_heads(work);
  float* o = work.parts + static_cast<int64_t>(unit) * part_floats(heads, head_elements);
  return {o, o + heads * head_elements, o + heads * head_elements + heads};
}

struct Unit {
  int row, rows;  // rows of the batch
  int sequence;
  int head_begin;  // first query head of the chunk
  int heads;       // query heads of the chunk: row-head i is row i / heads, head i % heads
  int count;       // row-heads
  int kv_head;
  int splits, first_unit;  // of the tile, and the unit number of its first split
  int unit_step;           // from one split's unit to the next
  int counter;
  int64_t position;  // of the first row
  int64_t block_begin, block_end;
};

// The units of a launch, found by every block of threads for itself: starts[t] = splits of the tiles before t. A tile's
// position is that of its first row.
struct UnitList {
  int32_t positions[kMaxTiles];  // a launcher sees to it that they fit
  int32_t sequences[kMaxTiles];
  int starts[kMaxTiles + 1];
};

__device__ __forceinline__ void tile_rows_of(const SplitWork& work, int tile, int& row, int& rows) {
  row = work.single_rows ? work.first_row + tile : static_cast<int>(work.tile[tile] & 0xffffffu);
  rows = work.single_rows ? 1 : static_cast<int>(work.tile[tile] >> 24);
}

// Splits of 1,024 keys, whoever asks.
struct ContractCut {
  using List = UnitList;
  static constexpr int kMostBlocks = numerics::kSplit / numerics::kKvBlock;  // of a unit

  // What starts[t + 1] holds before plan(): here the tile's splits.
  static __device__ __forceinline__ int measure(const SplitWork& work, int64_t position, int rows) {
    const int64_t first = numerics::first_visible(position, work.shape.window) / numerics::kSplit;
    return static_cast<int>((position + rows - 1) / numerics::kSplit - first + 1);
  }
  // By one warp: from what was measured to splits.
  static __device__ __forceinline__ void plan(const SplitWork&, List&) {}
  // The blocks of the unit's split; `seen`: the first key that its first row sees.
  static __device__ __forceinline__ void cut(const List&, int64_t seen, int split, Unit& unit) {
    const int64_t s = seen / numerics::kSplit + split;
    const int64_t begin = max(s * numerics::kSplit, seen);
    const int64_t end = min((s + 1) * numerics::kSplit, unit.position + unit.rows);
    unit.block_begin = begin / numerics::kKvBlock;
    unit.block_end = (end - 1) / numerics::kKvBlock + 1;
  }
};

// By all threads; ends with a barrier.
template <class Cut>
__device__ __forceinline__ void list_units(const SplitWork& work, typename Cut::List& list) {
  for (int t = threadIdx.x; t < work.tiles; t += kSplitThreads) {
    int row, rows;
    tile_rows_of(work, t, row, rows);
    const int64_t position = work.call.positions[row];
    list.positions[t] = static_cast<int32_t>(position);
    list.sequences[t] = work.call.sequences[row];
    list.starts[t + 1] = position < 0 ? 0 : Cut::measure(work, position, rows);
  }
  if (threadIdx.x == 0) list.starts[0] = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    Cut::plan(work, list);
    int before = 0;
    for (int base = 0; base < work.tiles; base += 32) {
      const int t = base + static_cast<int>(threadIdx.x);
      int sum = t < work.tiles ? list.starts[t + 1] : 0;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(kWholeWarp, sum, step);
        if (static_cast<int>(threadIdx.x) >= step) sum += left;
      }
      if (t < work.tiles) list.starts[t + 1] = before + sum;
      before += __shfl_sync(kWholeWarp, sum, 31);
    }
  }
  __syncthreads();
}

__device__ __forceinline__ int unit_count(const SplitWork& work, const UnitList& list) {
  return list.starts[work.tiles] * work.chunks * work.shape.kv_heads;
}

// Units go tile after tile, split after split, chunk after chunk, KV head after KV head.
template <class Cut>
__device__ __forceinline__ Unit unit_at(const SplitWork& work, const typename Cut::List& list, int index) {
  const int step = work.chunks * work.shape.kv_heads, group = work.group;
  const int split_unit = index / step, rest = index % step;
  int low = 0, high = work.tiles;  // starts[low] <= split_unit < starts[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.starts[middle] <= split_unit ? low : high) = middle;
  }
  Unit unit;
  tile_rows_of(work, low, unit.row, unit.rows);
  const int chunk = rest / work.shape.kv_heads;
  unit.kv_head = rest % work.shape.kv_heads;
  unit.heads = work.chunks > 1 ? min(kRowHeads, group - chunk * kRowHeads) : group;
  unit.head_begin = unit.kv_head * group + chunk * kRowHeads;
  unit.count = unit.rows * unit.heads;
  unit.splits = list.starts[low + 1] - list.starts[low];
  unit.unit_step = step;
  unit.first_unit = list.starts[low] * step + rest;
  unit.counter = low * step + rest;
  unit.position = list.positions[low];
  unit.sequence = list.sequences[low];
  Cut::cut(list, numerics::first_visible(unit.position, work.shape.window), split_unit - list.starts[low], unit);
  return unit;
}

// Keys that row-head i sees: [first, last].
struct Sight {
  int64_t first, last;
};
__device__ __forceinline__ Sight sight_of(const SplitWork& work, const Unit& unit, int i) {
  if (i >= unit.count) return {0, -1};
  const int64_t position = unit.position + i / unit.heads;
  return {numerics::first_visible(position, work.shape.window), position};
}
// Whether every row sees the whole block.
__device__ __forceinline__ bool all_visible(const SplitWork& work, const Unit& unit, int64_t block) {
  const int64_t key = block * numerics::kKvBlock;
  return key + numerics::kKvBlock - 1 <= unit.position &&
         numerics::first_visible(unit.position + unit.rows - 1, work.shape.window) <= key;
}

__device__ __forceinline__ uint16_t* output_of(const SplitWork& work, const Unit& unit, int i) {
  const int64_t row = unit.row + i / unit.heads;
  return work.call.out + row * work.call.out_stride + (unit.head_begin + i % unit.heads) * work.shape.head_size;
}
__device__ __forceinline__ const uint16_t* query_of(const SplitWork& work, const Unit& unit, int i) {
  const int64_t row = unit.row + i / unit.heads;
  return work.call.q + (row * work.shape.heads + unit.head_begin + i % unit.heads) * work.shape.head_padded;
}

// out[d] = operand(o * reciprocal) of kCount neighbours.
template <int kCount>
__device__ __forceinline__ void finish(const SplitWork& work, const Unit& unit, int i, int d, const float (&o)[kCount],
                                       float reciprocal) {
  uint16_t* out = output_of(work, unit, i);
  bool good = true;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (d + j >= work.shape.head_size) continue;
    const float y = numerics::mul_f32(o[j], reciprocal);
    good &= !numerics::is_nan(y);
    out[d + j] = numerics::bf16_operand(y);
  }
  if (!good) work.call.bad[unit.row + i / unit.heads] = true;
}

// The state over splits, joined in ascending order, of kTogether times four neighbouring elements of the output:
// elements 4 j ... 4 j + 3 of the unit's row-heads laid end to end, j = first, first + 32, ...
template <int kHead, int kTogether>
__device__ __forceinline__ void join_splits(const SplitWork& work, const Unit& unit, int first) {
  constexpr int kQuads = kHead / 4;
  float big_m[kTogether], big_l[kTogether], t[kTogether][4] = {};
#pragma unroll
  for (int n = 0; n < kTogether; ++n) big_m[n] = numerics::kMinusInfinity, big_l[n] = 0.0f;
#pragma unroll 2
  for (int s = 0; s < unit.splits; ++s) {
    const PartView part = part_view(work, unit.first_unit + s * unit.unit_step, kHead);
    float m[kTogether], l[kTogether];
    float4 o[kTogether];
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const int j = min(first + 32 * n, unit.count * kQuads - 1), i = j / kQuads;
      m[n] = __ldcg(part.m + i);
      l[n] = __ldcg(part.l + i);
      o[n] = __ldcg(reinterpret_cast<const float4*>(part.o) + j);
    }
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const float x[4] = {o[n].x, o[n].y, o[n].z, o[n].w};
      if (m[n] == numerics::kMinusInfinity) continue;
      const bool first_part = big_m[n] == numerics::kMinusInfinity;
      const numerics::MergeFactors factors = numerics::merge_factors(big_m[n], m[n], work.shape.c);
      big_m[n] = first_part ? m[n] : factors.m;
      big_l[n] = first_part ? l[n] : numerics::merge(big_l[n], factors.e1, l[n], factors.e2);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        t[n][e] = first_part ? x[e] : numerics::merge(t[n][e], factors.e1, x[e], factors.e2);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kTogether; ++n) {
    const int j = first + 32 * n;
    if (j >= unit.count * kQuads) continue;
    finish(work, unit, j / kQuads, j % kQuads * 4, t[n], numerics::div_f32(1.0f, big_l[n]));
  }
}

// Two weights as operands. A weight is +0 or in 2^-50 ... 2^9, where bf16_operand is rounding to nearest even.
__device__ __forceinline__ uint32_t weight_operands(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Where the 16-byte chunk of eight elements lies in an image, in bytes.
__device__ __forceinline__ uint32_t chunk_offset(int slot, int chunk) {
  return static_cast<uint32_t>(chunk / 8 * kKvTileBytes + slot * 128 + ((chunk % 8 ^ (slot & 7)) << 4));
}

// Two operands of a word as numbers.
__device__ __forceinline__ float low_operand(uint32_t word) { return numerics::float_of(word << 16); }
__device__ __forceinline__ float high_operand(uint32_t word) { return numerics::float_of(word & 0xffff0000u); }

// How the warps hand work on to each other. A stage of KV blocks is full where its copy has arrived, empty where the
// computing warps are done with it; queries (of every other unit) come with a unit's first block, and are free once
// they are in registers; a partial result is written, and then taken note of.
inline constexpr int kQuerySlots = 2, kPartSlots = 4;
template <int kTiles, int kStages>
struct Handover {
  static constexpr int kHead = kTiles * kKvTile;
  static constexpr int kBytes = 2 * kTiles * kKvTileBytes;
  static constexpr int kQueryRow = kHead * 2 + 16;  // bytes from one row-head to the next: no two in the same banks
  alignas(16) unsigned char queries[kQuerySlots][kRowHeads * kQueryRow];
  alignas(8) uint64_t full[kStages];
  uint64_t empty[kStages];
  uint64_t queries_free[kQuerySlots];
  uint64_t part_written[kPartSlots], part_noted[kPartSlots];

  // By all threads; a barrier must follow. What the copies never write stays zeros.
  __device__ void init() {
    for (unsigned i = threadIdx.x; i < sizeof queries / 4; i += kSplitThreads) {
      reinterpret_cast<uint32_t*>(queries)[i] = 0;
    }
    fence_async_proxy();
    if (threadIdx.x != 0) return;
    for (int s = 0; s < kStages; ++s) {
      barrier_init(shared_address(&full[s]), 1);
      barrier_init(shared_address(&empty[s]), kComputeThreads);  // one lane for its warp, and racecheck sees hazards
    }
    for (uint64_t& slot : queries_free) barrier_init(shared_address(&slot), group_arrivals(kComputeWarps, 32));
    for (int s = 0; s < kPartSlots; ++s) {
      barrier_init(shared_address(&part_written[s]), group_arrivals(kComputeWarps, 32));
      barrier_init(shared_address(&part_noted[s]), group_arrivals(1, 32));
    }
    barrier_init_fence();
  }
};

// A place in a ring of kSlots, and the parity of its round.
template <int kSlots>
struct Place {
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};

// A warp's share of a barrier's arrivals.
__device__ __forceinline__ void warp_arrive(uint64_t& barrier) {
  __syncwarp();
  group_arrive(shared_address(&barrier), threadIdx.x % 32 == 0);
}

// One warp: a unit's queries and blocks into their places.
template <class Cut, int kTiles, int kStages>
__device__ __forceinline__ void feed(const SplitWork& work, const Unit& unit, Handover<kTiles, kStages>& hand,
                                     uint32_t memory, Place<kStages>& stage, const Place<kQuerySlots>& queries) {
  using Hand = Handover<kTiles, kStages>;
  const DeviceKv& kv = work.call.kv;
  const int lane = threadIdx.x % 32, blocks = static_cast<int>(unit.block_end - unit.block_begin);
  const uint32_t query_bytes = 2 * static_cast<uint32_t>(work.shape.head_padded);
  const int32_t* table = kv.tables + unit.sequence * kv.table_stride + unit.block_begin;
  int32_t id = lane < blocks ? table[lane] : 0;
  wait_for_prerequisites();
  for (int b = 0; b < blocks; ++b) {
    if constexpr (Cut::kMostBlocks > 32) {
      if (b > 0 && b % 32 == 0) id = b + lane < blocks ? table[b + lane] : 0;
    }
    const int32_t block = __shfl_sync(kWholeWarp, id, b);
    const uint32_t full = shared_address(&hand.full[stage.slot]);
    if (lane == 0) {
      barrier_wait(shared_address(&hand.empty[stage.slot]), stage.parity ^ 1);
      if (b == 0) barrier_wait(shared_address(&hand.queries_free[queries.slot]), queries.parity ^ 1);
      barrier_expect(full, Hand::kBytes + (b == 0 ? static_cast<uint32_t>(unit.count) * query_bytes : 0));
      bulk_load(
          memory + stage.slot * Hand::kBytes,
          kv.base + static_cast<size_t>(block) * kv.block_stride + static_cast<size_t>(unit.kv_head) * kv.head_stride,
          Hand::kBytes, full);
    }
    __syncwarp();
    if (b == 0 && lane < unit.count) {
      bulk_load(shared_address(hand.queries[queries.slot]) + lane * Hand::kQueryRow, query_of(work, unit, lane),
                query_bytes, full);
    }
    stage.advance();
  }
}

// One warp: notes that a part is written, and joins the parts where it is the last.
template <int kHead>
__device__ __forceinline__ void join_if_last(const SplitWork& work, const Unit& unit) {
  const int lane = threadIdx.x % 32;
  __threadfence();
  uint32_t last = 0;
  if (lane == 0) {
    last = count_one(work.counters + unit.counter) + 1 == static_cast<uint32_t>(unit.splits);
    if (last) work.counters[unit.counter] = 0;
  }
  if (!__shfl_sync(kWholeWarp, last, 0)) return;
  __threadfence();
  constexpr int kTogether = 4;
  for (int j = lane; j < unit.count * (kHead / 4); j += 32 * kTogether) {
    join_splits<kHead, kTogether>(work, unit, j);
  }
}

// Rows: Mma16Rows or Fma32Rows, the state of a unit in the computing threads.
template <class Rows, class Cut, int kTiles>
__device__ __forceinline__ void run_units(const SplitWork& work) {
  constexpr int kStages = Rows::kStages;
  using Hand = Handover<kTiles, kStages>;
  extern __shared__ __align__(128) unsigned char dynamic_memory[];
  __shared__ Hand hand;
  __shared__ typename Cut::List list;
  __shared__ typename Rows::Shared shared;
  hand.init();
  // Positions, sequences and tables were copied before the step's first kernel; queries, keys and values were not, and
  // whoever copies them waits. All that the other warps write follows from these copies.
  launch_dependents();
  list_units<Cut>(work, list);
  const int units = unit_count(work, list), warp = threadIdx.x / 32;
  Place<kStages> stage;
  Place<kQuerySlots> queries;
  Place<kPartSlots> part;
  if (warp == kComputeWarps) {
    for (int u = blockIdx.x; u < units; u += gridDim.x) {
      feed<Cut>(work, unit_at<Cut>(work, list, u), hand, shared_address(dynamic_memory), stage, queries);
      queries.advance();
    }
    wait_for_prerequisites();  // with no unit either: the kernels after this one take its end for that of those before
    return;
  }
  if (warp > kComputeWarps) {
    for (int u = blockIdx.x; u < units; u += gridDim.x) {
      const Unit unit = unit_at<Cut>(work, list, u);
      if (unit.splits == 1) continue;
      barrier_wait(shared_address(&hand.part_written[part.slot]), part.parity);
      join_if_last<Hand::kHead>(work, unit);
      warp_arrive(hand.part_noted[part.slot]);
      part.advance();
    }
    return;
  }
  for (int u = blockIdx.x; u < units; u += gridDim.x) {
    const Unit unit = unit_at<Cut>(work, list, u);
    barrier_wait(shared_address(&hand.full[stage.slot]), stage.parity);
    Rows rows(work, unit, shared, hand.queries[queries.slot]);
    warp_arrive(hand.queries_free[queries.slot]);
    queries.advance();
    for (int64_t block = unit.block_begin; block < unit.block_end; ++block) {
      barrier_wait(shared_address(&hand.full[stage.slot]), stage.parity);
      rows.add_block(dynamic_memory + stage.slot * Hand::kBytes, block);
      barrier_arrive(shared_address(&hand.empty[stage.slot]));
      stage.advance();
    }
    if (unit.splits == 1) {
      rows.finish_all();
      continue;
    }
    rows.write_part(part_view(work, u, Hand::kHead));
    barrier_wait(shared_address(&hand.part_noted[part.slot]), part.parity ^ 1);
    warp_arrive(hand.part_written[part.slot]);
    part.advance();
  }
}

// kKernel: run_units of these rows. blocks: most blocks of threads that could find a unit.
template <auto kKernel, class Rows, int kTiles>
void launch_units(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  constexpr int kMemory = Rows::kStages * 2 * kTiles * kKvTileBytes;
  allow_memory<kKernel>(kMemory);
  const int64_t grid = std::min<int64_t>(blocks, int64_t{Rows::kResident} * processors);
  launch(kKernel, dim3(static_cast<unsigned>(grid)), kSplitThreads, kMemory, stream, work);
}

}  // namespace eadem::kernels::cuda
