// mma16 and int8 by wgmma: each warpgroup evaluates its outputs as the 64 rows of A (fewer: the rest is thrown away)
// for a block of 8, 16, 32 or 64 rows of activations. wgmma's bits are those of numerics/mma16.h for every tile shape.
#pragma once

#include "kernels/cuda/linear/stream.cuh"
#include "kernels/cuda/linear/warpgroup_mma.cuh"
#include "numerics/int8.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kWarpgroup = 128;

// Where a warpgroup's part of a stage lies, and who it is.
struct Consumer {
  Ring ring;
  RingCursor cursor;
  Place place;
  int warpgroup, thread;  // thread: in the warpgroup

  // Whoever writes the stage again hears of it: each CTA that shares the activations writes a part.
  EADEM_DEVICE void release(const StreamArgs& a, int stage) const {
    __syncwarp();
    const int lane = thread % 32;
    if (a.share == 1) {
      if (lane == 0) barrier_arrive(ring.empty_at(stage));
    } else if (lane < a.share) {
      barrier_arrive_at(ring.empty_at(stage), static_cast<uint32_t>(lane * a.split + place.split));
    }
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

// The descriptor of an operand whose first row, or a multiple of 32 bytes into it, lies at `address`.
EADEM_DEVICE uint64_t matrix_at(uint32_t address) { return matrix_descriptor((address & 0x3ffffu) >> 4 | 1u << 16); }

// hopper.cuh's pin, for integers.
template <int kCount>
EADEM_DEVICE void pin_integers(int32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// ---- mma16 ----------------------------------------------------------------------------------------------------------

// The chain of one shard: d = MMA16 over its groups of 16, ascending. The groups beyond the shard's k in its last tile
// have zero weights: products of zero change nothing.
template <int kRows>
EADEM_DEVICE void shard_chain(const StreamArgs& a, Consumer& c, float (&d)[kRows / 2]) {
  int previous = 0;
  for (int tile = 0; tile < a.shard_tiles; ++tile) {
    const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
    const uint32_t weights = stage + static_cast<uint32_t>(c.warpgroup * a.outputs * kTileRowBytes);
    const uint32_t rows = stage + static_cast<uint32_t>(a.x_offset);
    barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
    wgmma_fence();
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      WarpgroupMma<kRows>::operands(d, matrix_at(weights + 32 * g), matrix_at(rows + 32 * g), tile + g > 0);
    }
    wgmma_commit();
    if (tile > 0) {
      wgmma_wait<1>();
      c.release(a, previous);
    }
    previous = c.cursor.stage;
    c.cursor.advance(a.stages);
  }
  wgmma_wait<0>();
  pin(d);
  c.release(a, previous);
}

// ---- int8 -----------------------------------------------------------------------------------------------------------

// float(dot), exactly: |dot| <= 128 * 127 * 128 < 2^22, so 1.5 * 2^23 + dot is a float32, whose bits are 0x4b400000 +
// dot. Two cheap operations for a slow one.
EADEM_DEVICE float exact_float(int32_t dot) { return numerics::sub_f32(__int_as_float(0x4b400000 + dot), 12582912.0f); }

// Asks for the dot products of one scale group: `dot` of kRows rows x 64 outputs. sub: which group of the stage.
template <int kRows, int kGroups>
EADEM_DEVICE void issue_group(const StreamArgs& a, const Consumer& c, int sub, int32_t (&dot)[kRows / 2]) {
  const uint32_t at = c.ring.stage_at(a, c.cursor.stage) + static_cast<uint32_t>(sub * (kTileRowBytes / kGroups));
  const uint32_t weights = at + static_cast<uint32_t>(c.warpgroup * a.outputs * kTileRowBytes);
  const uint32_t rows = at + static_cast<uint32_t>(a.x_offset);
#pragma unroll
  for (int i = 0; i < 4 / kGroups; ++i) {
    WarpgroupMma<kRows>::int8(dot, matrix_at(weights + 32 * i), matrix_at(rows + 32 * i), i > 0);
  }
}

// acc = int8_step(acc, dot, ...) for the group.
template <int kRows, int kGroups>
EADEM_DEVICE void apply_group(const StreamArgs& a, const Consumer& c, int sub, const int32_t (&dot)[kRows / 2],
                              float (&acc)[kRows / 2]) {
  const bool minimum = a.shape.minimum;
  const int entry_floats = kGroups * (minimum ? 2 : 1);
  extern __shared__ __align__(1024) std::byte dynamic[];
  const std::byte* at = dynamic + (c.ring.stage_at(a, c.cursor.stage) - shared_address(dynamic));
  // Outputs past the item's share an entry with its last: they are thrown away.
  const int row = c.thread / 32 * 16 + c.thread % 32 / 4, column = c.thread % 4 * 2;
  const auto* side = reinterpret_cast<const float*>(at + a.side_offset) + c.warpgroup * a.outputs * entry_floats + sub;
  const float* entry[2] = {side + min(row, a.outputs - 1) * entry_floats,
                           side + min(row + 8, a.outputs - 1) * entry_floats};
  const auto* x = reinterpret_cast<const float*>(at + a.x_side_offset) + sub * kRows;
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
    const float2 x_scale = *reinterpret_cast<const float2*>(x + 8 * j + column);
    float2 sum = {};
    if (minimum) sum = *reinterpret_cast<const float2*>(x + kGroups * kRows + 8 * j + column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scale = i % 2 == 0 ? x_scale.x : x_scale.y, s = i % 2 == 0 ? sum.x : sum.y;
      float& y = acc[4 * j + i];
      y = numerics::fma_f32(exact_float(dot[4 * j + i]), numerics::mul_f32(scale, entry[i / 2][0]), y);
      if (minimum) y = numerics::fma_f32(s, numerics::mul_f32(scale, entry[i / 2][kGroups]), y);
    }
  }
}

// The chain of one shard over its scale groups, several of whose dots are computed at a time. While one warpgroup adds,
// others compute. Groups beyond the shard's k in its last tile are computed and thrown away (a wgmma in a branch would
// serialise them all).
template <int kRows, int kGroups>
EADEM_DEVICE void shard_chain_int8(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
  constexpr int kTogether = kRows == 64 && kGroups == 4 ? 2 : kGroups;
  const int groups = a.shard_k / (kTileRowBytes / kGroups);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) acc[i] = 0.0f;
  for (int first = 0; first < groups; first += kGroups) {
    barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
#pragma unroll
    for (int sub = 0; sub < kGroups; sub += kTogether) {
      int32_t dot[kTogether][kRows / 2];
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kTogether; ++i) issue_group<kRows, kGroups>(a, c, sub + i, dot[i]);
      wgmma_commit();
      wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        pin_integers(dot[i]);
        if (first + sub + i < groups) apply_group<kRows, kGroups>(a, c, sub + i, dot[i], acc);
      }
    }
    c.release(a, c.cursor.stage);
    c.cursor.advance(a.stages);
  }
}

// ---- Shards and outputs ---------------------------------------------------------------------------------------------

// The tree over `shards` chains, one after the other: a finished pair waits for its neighbour. kLevels: of the tree, at
// most; 0: one shard, 1: two, 3: eight.
template <int kCount, int kLevels, class Chain>
EADEM_DEVICE void shard_sum(int shards, float (&sum)[kCount], const Chain& chain) {
  if constexpr (kLevels == 0) {
    chain(sum);
  } else {
    float one[kCount], two[kLevels > 1 ? kCount : 1], four[kLevels > 1 ? kCount : 1];
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
          continue;
        }
        add_into(sum, two);
        if ((s & 4) == 0) {
          copy_into(four, sum);
        } else {
          add_into(sum, four);
        }
      }
    }
  }
}

template <int kRows>
EADEM_DEVICE void store_sums(const StreamArgs& a, const Consumer& c, const Item& item, const float (&sum)[kRows / 2]) {
  const int first = c.thread / 32 * 16 + c.thread % 32 / 4;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) {
    const int output = first + (i / 2 % 2) * 8, row = item.row + i / 4 * 8 + c.thread % 4 * 2 + i % 2;
    if (output < a.outputs) store_output(a, row, item.n + c.warpgroup * a.outputs + output, sum[i]);
  }
}

// The barriers over which the CTAs of a cluster that share out the shards hand each other their sums. first: the rank
// of the first of them.
struct Exchange {
  uint32_t written, read, first;
};

// What was written before is seen by whoever waits.
EADEM_DEVICE void arrive_at_all(const StreamArgs& a, const Exchange& exchange, uint32_t barrier) {
  if (threadIdx.x < static_cast<unsigned>(a.split)) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                     remote_address(barrier, exchange.first + threadIdx.x))
                 : "memory");
  }
}
EADEM_DEVICE void wait_for_all(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1; @!done bra "
      "again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
EADEM_DEVICE float remote_float(uint32_t address, uint32_t rank) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote_address(address, rank)) : "memory");
  return v;
}

// Each CTA holds the sum of its shards; each finishes every split-th of the registers: the upper
// levels of the tree.
template <int kRows>
EADEM_DEVICE void join_cluster(const StreamArgs& a, const Consumer& c, const Item& item, const Exchange& exchange,
                               uint32_t parity, const float (&sum)[kRows / 2]) {
  const int threads = static_cast<int>(blockDim.x) - 32;
  const uint32_t at = c.ring.base + static_cast<uint32_t>(a.exchange_offset) + 4 * threadIdx.x;
  wait_for_all(exchange.read, parity ^ 1);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + static_cast<uint32_t>(4 * i * threads)), "f"(sum[i]) : "memory");
  }
  named_barrier(1, threads);
  arrive_at_all(a, exchange, exchange.written);
  wait_for_all(exchange.written, parity);
  for (int i = c.place.split; i < kRows / 2; i += a.split) {
    float part[numerics::kMaxShards];
    for (int r = 0; r < a.split; ++r) {
      part[r] = remote_float(at + static_cast<uint32_t>(4 * i * threads), exchange.first + static_cast<uint32_t>(r));
    }
    const int output = c.thread / 32 * 16 + c.thread % 32 / 4 + (i / 2 % 2) * 8;
    const int row = item.row + i / 4 * 8 + c.thread % 4 * 2 + i % 2;
    if (output < a.outputs) {
      store_output(a, row, item.n + c.warpgroup * a.outputs + output, numerics::shard_tree(part, a.split));
    }
  }
  named_barrier(1, threads);
  arrive_at_all(a, exchange, exchange.read);
}

// The consumers' walk. chain: one shard into its argument.
template <int kRows, int kLevels, class Chain>
EADEM_DEVICE void consume(const StreamArgs& a, const Consumer& c, const Exchange& exchange, int first_item, int step,
                          const Chain& chain) {
  const int shards = a.shape.shards / a.split;
  uint32_t parity = 0;
  bool waited = false;
  for (int index = first_item; index < a.items; index += step) {
    const Item item = item_at(a, c.place, index);
    float sum[kRows / 2];
    shard_sum<kRows / 2, kLevels>(shards, sum, chain);
    if (!waited) wait_for_prerequisites(), waited = true;
    if (kLevels == 0 || a.split == 1) {
      store_sums<kRows>(a, c, item, sum);
    } else {
      join_cluster<kRows>(a, c, item, exchange, parity, sum);
      parity ^= 1;
    }
  }
  // Nobody may still read this CTA's sums when it ends.
  if (kLevels > 0 && a.split > 1) wait_for_all(exchange.read, parity ^ 1);
}

// The whole kernel; kGroups: scale groups of a tile under int8, 0 under mma16.
template <int kRows, int kLevels, int kGroups>
EADEM_DEVICE void stream_linear(const StreamArgs& a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  __shared__ uint64_t barriers[2 * kMaxStages + 2];
  const int consumers = static_cast<int>(blockDim.x) - 32;
  // The swizzle counts from multiples of 1,024.
  const Ring ring = make_ring(a, barriers, (shared_address(dynamic) + 1023) & ~1023u, consumers / 32 * a.share);
  Exchange exchange{shared_address(barriers + 2 * kMaxStages), shared_address(barriers + 2 * kMaxStages + 1), 0};
  if (threadIdx.x == 0) {
    barrier_init(exchange.written, a.split);
    barrier_init(exchange.read, a.split);
    barrier_init_fence();
  }
  launch_dependents();
  const int cluster = a.split * a.share;
  Place place;
  if (cluster > 1) {
    const int rank = static_cast<int>(cluster_rank());
    place = {rank % a.split, rank / a.split};
    exchange.first = static_cast<uint32_t>(rank - place.split);
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  const int first = static_cast<int>(blockIdx.x) / cluster, step = static_cast<int>(gridDim.x) / cluster;
  if (static_cast<int>(threadIdx.x) >= consumers) {
    if (static_cast<int>(threadIdx.x) == consumers) produce(a, ring, place, first, step);
  } else {
    Consumer c{ring, {}, place, static_cast<int>(threadIdx.x) / kWarpgroup, static_cast<int>(threadIdx.x) % kWarpgroup};
    consume<kRows, kLevels>(a, c, exchange, first, step, [&](float (&sum)[kRows / 2]) {
      if constexpr (kGroups == 0) {
        shard_chain<kRows>(a, c, sum);
      } else {
        shard_chain_int8<kRows, kGroups>(a, c, sum);
      }
    });
  }
  // Others may still arrive at this CTA's barriers.
  if (a.share > 1) {
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace
}  // namespace eadem::kernels::cuda
