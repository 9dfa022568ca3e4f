// What the consumers of stream.cuh share: shards joined in a CTA and in a cluster, and outputs. A consumer's fragment
// of sums is that of the tensor cores' instructions for 16 outputs a warp: d[4 j + 2 h + i] is output lane / 4 + 8 h of
// the warp's, row 8 j + 2 (lane % 4) + i of the block.
#pragma once

#include "kernels/cuda/linear/quantise.cuh"
#include "kernels/cuda/linear/stream.cuh"
#include "kernels/cuda/linear/stream.h"
#include "numerics/int8.h"

namespace eadem::kernels::cuda {
namespace {

struct Consumer {
  Ring ring;
  RingCursor cursor;
  int rank;    // of the CTA in its cluster
  int thread;  // that computes
  int first;   // output of its group of warps, in the item
  int output;  // the first of this warp's
  int row;     // the first of its rows, in the block
  int tile;    // the next, of the item

  EADEM_DEVICE int lane() const { return thread % 32; }
  EADEM_DEVICE void release(int stage) const {
    __syncwarp();
    group_arrive(ring.empty_at(stage), lane() == 0);
  }
};

template <int kCount>
EADEM_DEVICE void add_into(float (&sum)[kCount], const float (&left)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = numerics::add_f32(left[i], sum[i]);
}
template <int kCount>
EADEM_DEVICE void copy_into(float (&to)[kCount], const float (&from)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("mov.f32 %0, %1;" : "=f"(to[i]) : "f"(from[i]));
}

// ---- int8 -----------------------------------------------------------------------------------------------------------

// float(dot), exactly: |dot| <= 128 * 127 * 128 < 2^22, so 1.5 * 2^23 + dot is a float32, whose bits are kFloatBias +
// dot. Dot products begin at kFloatBias instead of zero, and a subtraction makes the float: the conversion instruction
// runs at an eighth of its rate.
inline constexpr int32_t kFloatBias = 0x4b400000;
EADEM_DEVICE float exact_float(int32_t biased) { return numerics::sub_f32(__int_as_float(biased), 12582912.0f); }

// The bias in a register that the compiler does not make anew for each use.
EADEM_DEVICE int32_t float_bias() {
  int32_t bias;
  asm volatile("mov.b32 %0, %1;" : "=r"(bias) : "n"(kFloatBias));
  return bias;
}

EADEM_DEVICE void shared_store_words(uint32_t address, const uint4& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
EADEM_DEVICE float shared_load_float(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
  return v;
}

// Where the scales of a thread's fragment lie in a stage: of its outputs and of the activations' rows. x_group: bytes
// from one group's to the next one's, all rows of a block.
template <int kGroups, bool kMinimum>
struct SideOffsets {
  uint32_t w[2], x, x_group;

  EADEM_DEVICE SideOffsets(const StreamArgs& a, const Consumer& c) {
    constexpr int kEntryBytes = kGroups * (kMinimum ? 2 : 1) * 4;
    // Outputs past the item's share an entry with its last: they are thrown away.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int output = min(c.output + c.lane() / 4 + 8 * h, a.item_outputs - 1);
      w[h] = static_cast<uint32_t>(a.side_offset + output * kEntryBytes);
    }
    x = static_cast<uint32_t>(a.x_side_offset + 4 * c.row + c.lane() % 4 * 8);
    x_group = static_cast<uint32_t>(4 * a.block_rows);
  }
};

// The scales of one group for a thread's fragment, read before the dot products are there.
template <int kRows, int kGroups, bool kMinimum>
struct GroupScales {
  float w[2], minimum[2];
  float2 x[kRows / 8], sum[kMinimum ? kRows / 8 : 1];

  // stage: where that of the weights begins, x_stage: that of the activations. sub: which group of the stage.
  EADEM_DEVICE void load(const SideOffsets<kGroups, kMinimum>& offsets, uint32_t stage, uint32_t x_stage, int sub) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t entry = stage + offsets.w[h] + static_cast<uint32_t>(4 * sub);
      w[h] = shared_load_float(entry);
      if constexpr (kMinimum) minimum[h] = shared_load_float(entry + 4 * kGroups);
    }
    const uint32_t rows = x_stage + offsets.x + static_cast<uint32_t>(sub) * offsets.x_group;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      x[j] = shared_load_pair(rows + static_cast<uint32_t>(32 * j));
      if constexpr (kMinimum) {
        sum[j] = shared_load_pair(rows + kGroups * offsets.x_group + static_cast<uint32_t>(32 * j));
      }
    }
  }

  // acc = int8_step(acc, dot, ...), for the j-th eight rows and for all.
  EADEM_DEVICE void apply(int j, const int32_t* biased, float (&acc)[kRows / 2]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scale = i % 2 == 0 ? x[j].x : x[j].y;
      float& y = acc[4 * j + i];
      y = numerics::fma_f32(exact_float(biased[i]), numerics::mul_f32(scale, w[i / 2]), y);
      if constexpr (kMinimum) {
        y = numerics::fma_f32(i % 2 == 0 ? sum[j].x : sum[j].y, numerics::mul_f32(scale, minimum[i / 2]), y);
      }
    }
  }
  EADEM_DEVICE void apply(const int32_t (&biased)[kRows / 2], float (&acc)[kRows / 2]) const {
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) apply(j, biased + 4 * j, acc);
  }
};

// Quantises the call's rows into the CTA's shared memory: what its rank reads of them. Groups of 128. All the threads
// that work take part, with many loads under way at once.
EADEM_DEVICE void quantise_own_rows(const StreamArgs& a, const Consumer& c) {
  constexpr int kLanes = kTileRowBytes / kQuantisedPerLane, kAtOnce = 4;
  const int tiles = a.k_tiles / a.split, part = c.thread % kLanes;
  const int kept = a.own_rows_kept, shift = 31 - __clz(kept), groups = tiles << shift;
  const uint16_t* operands = a.own_rows + c.rank * tiles * kTileRowBytes + part * kQuantisedPerLane;
  const uint32_t q = c.ring.base + static_cast<uint32_t>(a.own_rows_offset);
  const uint32_t scales = q + static_cast<uint32_t>(tiles * a.own_tile_bytes);
  wait_for_prerequisites();
  for (int first = c.thread / kLanes; first - c.thread / kLanes < groups; first += kAtOnce * a.workers / kLanes) {
    uint4 words[kAtOnce][2] = {};
    const auto group_of = [&](int i) { return first + i * a.workers / kLanes; };
    const auto row_of = [&](int i) { return group_of(i) & (kept - 1); };
    const auto exists = [&](int i) { return group_of(i) < groups && row_of(i) < a.rows; };
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!exists(i)) continue;
      const auto* from = reinterpret_cast<const uint4*>(operands + static_cast<int64_t>(row_of(i)) * a.shape.k_padded +
                                                        (group_of(i) >> shift) * kTileRowBytes);
      words[i][0] = from[0], words[i][1] = from[1];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const QuantisedLane lane = quantise_lane(words[i], kLanes);
      if (!exists(i)) continue;
      const int row = row_of(i), tile = group_of(i) >> shift;
      const uint32_t chunk = (part ^ (row & 7)) << 4, scale = scales + tile * a.own_scale_bytes + 4 * row;
      shared_store_words(q + tile * a.own_tile_bytes + row * kTileRowBytes + chunk, lane.q);
      if (part == 0) shared_store(scale, __float_as_uint(lane.scale));
      if (part == 0 && kept == 1) shared_store(scale + 4, __float_as_uint(lane.scale));
    }
  }
  named_barrier(2, a.workers);
}

// ---- Shards and outputs ---------------------------------------------------------------------------------------------

// The tree over `shards` chains, one after the other: a finished pair waits for its neighbour. kLevels: of the tree, at
// most; 0: one shard, 1: two, 2: four.
template <int kCount, int kLevels, class Chain>
EADEM_DEVICE void shard_sum(int shards, float (&sum)[kCount], const Chain& chain) {
  if constexpr (kLevels == 0) {
    chain(sum);
  } else {
    float one[kCount], two[kLevels > 1 ? kCount : 1];
    for (int s = 0; s < shards; ++s) {
      chain(sum);
      if ((s & 1) == 0) {
        copy_into(one, sum);
        continue;
      }
      add_into(sum, one);
      if constexpr (kLevels > 1) {
        if ((s & 2) == 0) {
          copy_into(two, sum);
        } else {
          add_into(sum, two);
        }
      }
    }
  }
}

// Where fragment register i of this thread belongs.
EADEM_DEVICE int output_of(const Consumer& c, int i) { return c.output + c.lane() / 4 + i / 2 % 2 * 8; }
EADEM_DEVICE int row_of(const Consumer& c, int i) { return c.row + i / 4 * 8 + c.lane() % 4 * 2 + i % 2; }

// Stores the first `count` sums of a thread's fragment; sum[m] is its register register_of(m). limit: the end of the
// outputs that this consumer's group of warps owns. What y holds is asked for eight at a time: one after the other it
// would take long.
template <int kCount, class RegisterOf>
EADEM_DEVICE void store_sums(const StreamArgs& a, const Consumer& c, const Item& item, int limit, int count,
                             const RegisterOf& register_of, const float (&sum)[kCount]) {
  constexpr int kChunk = kCount < 8 ? kCount : 8;
#pragma unroll
  for (int first = 0; first < kCount; first += kChunk) {
    float* to[kChunk];
    float bias[kChunk], before[kChunk];
#pragma unroll
    for (int m = 0; m < kChunk; ++m) {
      const int i = register_of(first + m), output = output_of(c, i), row = item.row + row_of(c, i);
      const bool owned = first + m < count && output < limit && item.n + output < a.shape.n && row < a.rows;
      to[m] = owned ? a.y + row * a.y_stride + item.n + output : nullptr;
      bias[m] = owned && a.bias != nullptr ? a.bias[item.n + output] : 0.0f;
      before[m] = owned && a.add_to_y ? *to[m] : 0.0f;
    }
#pragma unroll
    for (int m = 0; m < kChunk; ++m) {
      float y = sum[first + m];
      if (a.bias != nullptr) y = numerics::add_f32(y, bias[m]);
      if (a.add_to_y) y = numerics::add_f32(before[m], y);
      if (to[m] != nullptr) *to[m] = y;
    }
  }
}

// The barriers over which the CTAs of a cluster hand each other their sums.
struct Exchange {
  uint32_t written, read;
};

// What was written before is seen by whoever waits. By the threads that compute, behind a barrier of theirs.
EADEM_DEVICE void arrive_at_all(const StreamArgs& a, uint32_t barrier) {
  const auto arrive = [barrier](unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_address(barrier, rank))
                 : "memory");
  };
  const auto ranks = static_cast<unsigned>(a.split);
  if constexpr (kEveryThreadArrives) {
    for (unsigned rank = 0; rank < ranks; ++rank) arrive(rank);
  } else {
    if (threadIdx.x < ranks) arrive(threadIdx.x);
  }
}
EADEM_DEVICE void wait_for_all(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1; @!done bra "
      "again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
EADEM_DEVICE void remote_store(uint32_t address, float v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

// Each CTA holds the sum of its shards, and hands every split-th register to the CTA that finishes it: the upper levels
// of the tree. In a CTA's exchange: [rank of the sender][register][thread].
template <int kRows>
EADEM_DEVICE void join_cluster(const StreamArgs& a, const Consumer& c, const Item& item, const Exchange& exchange,
                               int limit, uint32_t parity, const float (&sum)[kRows / 2]) {
  constexpr int kMost = kRows / 4;  // registers that a CTA finishes, with two of them
  const int threads = a.threads, shift = 31 - __clz(a.split), each = max(kRows / 2 >> shift, 1);
  const uint32_t mine = c.ring.base + static_cast<uint32_t>(a.exchange_offset) + 4 * threadIdx.x;
  const auto stride = static_cast<uint32_t>(4 * threads);
  const uint32_t from_here = mine + stride * static_cast<uint32_t>(each * c.rank);
  wait_for_all(exchange.read, parity ^ 1);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) {
    const uint32_t there = from_here + stride * static_cast<uint32_t>(i >> shift);
    remote_store(remote_address(there, static_cast<uint32_t>(i & (a.split - 1))), sum[i]);
  }
  named_barrier(1, threads);
  arrive_at_all(a, exchange.written);
  wait_for_all(exchange.written, parity);
  float joined[kMost];
#pragma unroll
  for (int m = 0; m < kMost; ++m) {
    if (m >= each) break;
    const auto part = [&](int r) { return shared_load_float(mine + stride * static_cast<uint32_t>(r * each + m)); };
    joined[m] = numerics::add_f32(part(0), part(1));
    if (a.split > 2) joined[m] = numerics::add_f32(joined[m], numerics::add_f32(part(2), part(3)));
    if (a.split > 4) {
      const float low = numerics::add_f32(part(4), part(5));
      joined[m] = numerics::add_f32(joined[m], numerics::add_f32(low, numerics::add_f32(part(6), part(7))));
    }
  }
  const int owned = c.rank < kRows / 2 ? each : 0;  // of eight CTAs only four have a register of four
  store_sums(a, c, item, limit, owned, [&](int m) { return (m << shift) + c.rank; }, joined);
}

// The consumers' walk. waited: for the kernels before. chain: one shard into its argument.
template <int kRows, int kLevels, class Chain>
EADEM_DEVICE void consume(const StreamArgs& a, Consumer& c, const Exchange& exchange, int limit, int first_item,
                          int step, bool waited, const Chain& chain) {
  const int shards = a.shape.shards / a.split;
  uint32_t parity = 0;
  for (int index = first_item; index < a.items; index += step) {
    const Item item = item_at(a, index);
    float sum[kRows / 2];
    c.tile = 0;
    shard_sum<kRows / 2, kLevels>(shards, sum, chain);
    if (!waited) wait_for_prerequisites(), waited = true;
    if (kLevels == 0 || a.split == 1) {
      store_sums(a, c, item, limit, kRows / 2, [](int i) { return i; }, sum);
      continue;
    }
    join_cluster<kRows>(a, c, item, exchange, limit, parity, sum);
    // Nobody sends the next item's sums before all have read these; who has no next item may be gone.
    if (index + step < a.items) {
      named_barrier(1, a.threads);
      arrive_at_all(a, exchange.read);
      parity ^= 1;
    }
  }
}

// The whole kernel. Chains: how a consumer evaluates a shard: kWarps (of a group with outputs of its own), kOwnRows
// (whether the CTA quantises its rows), run().
template <int kRows, int kLevels, class Chains>
EADEM_DEVICE void stream_linear(const StreamArgs& a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  __shared__ uint64_t barriers[2 * kMaxStages + 2];
  // The swizzle counts from multiples of 1,024.
  const Ring ring = make_ring(a, barriers, (shared_address(dynamic) + 1023) & ~1023u, a.threads / 32);
  const Exchange exchange{shared_address(barriers + 2 * kMaxStages), shared_address(barriers + 2 * kMaxStages + 1)};
  if (threadIdx.x == 0) {
    barrier_init(exchange.written, group_arrivals(a.split, a.threads));
    barrier_init(exchange.read, group_arrivals(a.split, a.threads));
    barrier_init_fence();
  }
  launch_dependents();
  int rank = 0;
  if (kLevels > 0 && a.split > 1) {
    rank = static_cast<int>(cluster_rank());
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  const int first = static_cast<int>(blockIdx.x) / a.split, step = static_cast<int>(gridDim.x) / a.split;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= a.workers) {
    const bool last = thread >= a.workers + 32 * (a.producers - 1);
    produce(a, ring, rank, first, step, thread < a.workers + 32, last && !Chains::kOwnRows);
    return;
  }
  // Groups of warps share out the outputs, then the rows.
  const int group = thread / 32 / Chains::kWarps, across = a.item_outputs / a.outputs, along = group % across;
  const int output = along * a.outputs;
  Consumer c{ring, {}, rank, thread, output, output + thread / 32 % Chains::kWarps * 16, group / across * kRows, 0};
  if constexpr (Chains::kOwnRows) {
    quantise_own_rows(a, c);
    if (thread >= a.threads) return;
  }
  consume<kRows, kLevels>(a, c, exchange, output + a.outputs, first, step, Chains::kOwnRows,
                          [&](float (&sum)[kRows / 2]) { Chains::run(a, c, sum); });
  // Whoever ends has all sums that are sent to it, which racecheck does not see.
  if constexpr (kEveryThreadArrives && kLevels > 0) {
    if (a.split > 1) cluster_arrive(), cluster_wait();
  }
}

}  // namespace
}  // namespace eadem::kernels::cuda
