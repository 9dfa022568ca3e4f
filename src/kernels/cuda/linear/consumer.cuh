// What the consumers of stream.cuh share: shards joined in a CTA and in a cluster, and outputs. A consumer's fragment
// of sums is that of the tensor cores' instructions for 16 outputs a warp: d[4 j + 2 h + i] is output lane / 4 + 8 h of
// the warp's, row 8 j + 2 (lane % 4) + i of the block.
#pragma once

#include "kernels/cuda/linear/stream.cuh"
#include "numerics/int8.h"

namespace eadem::kernels::cuda {
namespace {

struct Consumer {
  Ring ring;
  RingCursor cursor;
  int rank;    // of the CTA in its cluster
  int thread;  // that computes
  int output;  // the first of this warp's, in the item

  EADEM_DEVICE int lane() const { return thread % 32; }
  EADEM_DEVICE void release(int stage) const {
    __syncwarp();
    if (lane() == 0) barrier_arrive(ring.empty_at(stage));
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

// float(dot), exactly: |dot| <= 128 * 127 * 128 < 2^22, so 1.5 * 2^23 + dot is a float32, whose bits are 0x4b400000 +
// dot. Two cheap operations for a slow one.
EADEM_DEVICE float exact_float(int32_t dot) { return numerics::sub_f32(__int_as_float(0x4b400000 + dot), 12582912.0f); }

// acc = int8_step(acc, dot, ...) for one scale group: the sub-th of the stage at `stage`.
template <int kRows, int kGroups>
EADEM_DEVICE void apply_group(const StreamArgs& a, const Consumer& c, uint32_t stage, int sub,
                              const int32_t (&dot)[kRows / 2], float (&acc)[kRows / 2]) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  const std::byte* at = dynamic + (stage - shared_address(dynamic));
  const bool minimum = a.shape.minimum;
  const int entry_floats = kGroups * (minimum ? 2 : 1);
  // Outputs past the item's share an entry with its last: they are thrown away.
  const int row = c.output + c.lane() / 4, column = c.lane() % 4 * 2;
  const auto* side = reinterpret_cast<const float*>(at + a.side_offset) + sub;
  const float* entry[2] = {side + min(row, a.item_outputs - 1) * entry_floats,
                           side + min(row + 8, a.item_outputs - 1) * entry_floats};
  const float scales[2] = {*entry[0], *entry[1]};
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
      y = numerics::fma_f32(exact_float(dot[4 * j + i]), numerics::mul_f32(scale, scales[i / 2]), y);
      if (minimum) y = numerics::fma_f32(s, numerics::mul_f32(scale, entry[i / 2][kGroups]), y);
    }
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

// Where fragment register i of this thread belongs.
EADEM_DEVICE int output_of(const Consumer& c, int i) { return c.output + c.lane() / 4 + i / 2 % 2 * 8; }
EADEM_DEVICE int row_of(const Consumer& c, int i) { return i / 4 * 8 + c.lane() % 4 * 2 + i % 2; }

// limit: the end of the outputs that this consumer's group of warps owns.
EADEM_DEVICE void store_sum(const StreamArgs& a, const Consumer& c, const Item& item, int limit, int i, float sum) {
  if (output_of(c, i) < limit) store_output(a, item.row + row_of(c, i), item.n + output_of(c, i), sum);
}

// The barriers over which the CTAs of a cluster hand each other their sums.
struct Exchange {
  uint32_t written, read;
};

// What was written before is seen by whoever waits.
EADEM_DEVICE void arrive_at_all(const StreamArgs& a, uint32_t barrier) {
  if (threadIdx.x < static_cast<unsigned>(a.split)) {
    asm volatile(
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_address(barrier, threadIdx.x))
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
                               int limit, uint32_t parity, const float (&sum)[kRows / 2]) {
  const int threads = static_cast<int>(blockDim.x) - 32;
  const uint32_t at = c.ring.base + static_cast<uint32_t>(a.exchange_offset) + 4 * threadIdx.x;
  wait_for_all(exchange.read, parity ^ 1);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + static_cast<uint32_t>(4 * i * threads)), "f"(sum[i]) : "memory");
  }
  named_barrier(1, threads);
  arrive_at_all(a, exchange.written);
  wait_for_all(exchange.written, parity);
  for (int i = c.rank; i < kRows / 2; i += a.split) {
    float part[numerics::kMaxShards];
    for (int r = 0; r < a.split; ++r) {
      part[r] = remote_float(at + static_cast<uint32_t>(4 * i * threads), static_cast<uint32_t>(r));
    }
    store_sum(a, c, item, limit, i, numerics::shard_tree(part, a.split));
  }
  named_barrier(1, threads);
  arrive_at_all(a, exchange.read);
}

// The consumers' walk. chain: one shard into its argument.
template <int kRows, int kLevels, class Chain>
EADEM_DEVICE void consume(const StreamArgs& a, const Consumer& c, const Exchange& exchange, int limit, int first_item,
                          int step, const Chain& chain) {
  const int shards = a.shape.shards / a.split;
  uint32_t parity = 0;
  bool waited = false;
  for (int index = first_item; index < a.items; index += step) {
    const Item item = item_at(a, index);
    float sum[kRows / 2];
    shard_sum<kRows / 2, kLevels>(shards, sum, chain);
    if (!waited) wait_for_prerequisites(), waited = true;
    if (kLevels == 0 || a.split == 1) {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) store_sum(a, c, item, limit, i, sum[i]);
    } else {
      join_cluster<kRows>(a, c, item, exchange, limit, parity, sum);
      parity ^= 1;
    }
  }
  // Nobody may still read this CTA's sums when it ends.
  if (kLevels > 0 && a.split > 1) wait_for_all(exchange.read, parity ^ 1);
}

// The whole kernel. Chains: how a consumer evaluates a shard: kWarps (of a group with outputs of its own), run().
template <int kRows, int kLevels, class Chains>
EADEM_DEVICE void stream_linear(const StreamArgs& a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  __shared__ uint64_t barriers[2 * kMaxStages + 2];
  const int consumers = static_cast<int>(blockDim.x) - 32;
  // The swizzle counts from multiples of 1,024.
  const Ring ring = make_ring(a, barriers, (shared_address(dynamic) + 1023) & ~1023u, consumers / 32);
  const Exchange exchange{shared_address(barriers + 2 * kMaxStages), shared_address(barriers + 2 * kMaxStages + 1)};
  if (threadIdx.x == 0) {
    barrier_init(exchange.written, a.split);
    barrier_init(exchange.read, a.split);
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
  if (thread >= consumers) {
    produce(a, ring, rank, first, step);
    return;
  }
  const int group = thread / 32 / Chains::kWarps, warp = thread / 32 % Chains::kWarps;
  Consumer c{ring, {}, rank, thread, group * a.outputs + warp * 16};
  consume<kRows, kLevels>(a, c, exchange, min((group + 1) * a.outputs, a.item_outputs), first, step,
                          [&](float (&sum)[kRows / 2]) { Chains::run(a, c, sum); });
}

}  // namespace
}  // namespace eadem::kernels::cuda
