// fma32 on CUDA cores. Eight warps take a tile of k each, in turns: half a warp a leaf of 32 products, a lane some
// outputs and all rows of the block. The leaves' sums meet in shared memory, where each output's owner adds them in
// ascending order.
#include "kernels/cuda/linear/stream.cuh"
#include "kernels/cuda/linear/stream.h"
#include "numerics/fma32.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kWarps = kFma32Warps, kThreads = 32 * kWarps;
inline constexpr int kLanes = 16;  // of a leaf
static_assert(kThreads + 32 <= kMaxThreads);

EADEM_DEVICE uint4 load_chunk(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// The values of eight operands: even[i] of element 2 i, odd[i] of 2 i + 1.
struct Chunk {
  float even[4], odd[4];
  EADEM_DEVICE explicit Chunk(uint4 v) {
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      even[i] = __uint_as_float(words[i] << 16);
      odd[i] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
  EADEM_DEVICE Chunk() {}
};

// numerics::fma32_leaf of this lane's outputs (lane, lane + 16, ...) and all rows, into sums[row][output].
template <int kRows, int kOutputs>
EADEM_DEVICE void leaf_sums(uint32_t weights, uint32_t rows, int leaf, int lane, float* sums) {
  float even[kOutputs][kRows] = {}, odd[kOutputs][kRows] = {};
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int byte = 64 * leaf + 16 * c;
    Chunk w[kOutputs];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
      w[n] = Chunk(load_chunk(weights + static_cast<uint32_t>(tile_byte(n * kLanes + lane, byte))));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Chunk x(load_chunk(rows + static_cast<uint32_t>(tile_byte(r, byte))));
#pragma unroll
      for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          even[n][r] = numerics::fma_f32(x.even[i], w[n].even[i], even[n][r]);
          odd[n][r] = numerics::fma_f32(x.odd[i], w[n].odd[i], odd[n][r]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
      sums[(r * kOutputs + n) * kLanes + lane] = numerics::add_f32(even[n][r], odd[n][r]);
    }
  }
}

// The sums of one output: leaves of a shard in order, then the shard tree.
struct OutputSum {
  float acc, one, two, four;
  EADEM_DEVICE void end_shard(int shard) {
    float sum = acc;
    if ((shard & 1) == 0) {
      one = sum;
    } else {
      sum = numerics::add_f32(one, sum);
      if ((shard & 2) == 0) {
        two = sum;
      } else {
        sum = numerics::add_f32(two, sum);
        if ((shard & 4) == 0) {
          four = sum;
        } else {
          sum = numerics::add_f32(four, sum);
        }
      }
    }
    total = sum;
    acc = 0.0f;
  }
  float total;
};

template <int kRows, int kOutputs>
EADEM_DEVICE void consume_item(const StreamArgs& a, const Ring& ring, const Item& item, int sequence, float* buffers) {
  constexpr int kSums = kRows * kOutputs * kLanes, kOwned = (kSums + kThreads - 1) / kThreads;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const bool half_tile = a.shard_k % 64 != 0;  // a shard's last tile holds one leaf
  OutputSum sums[kOwned] = {};
  int shard = 0, tile_in_shard = 0;
  for (int first = 0, round = 0; first < a.k_tiles; first += kWarps, ++round) {
    float* const buffer = buffers + round % 2 * (2 * kWarps * kSums);
    if (first + warp < a.k_tiles) {
      const int stage = (sequence + first + warp) % a.stages, turn = (sequence + first + warp) / a.stages;
      const uint32_t at = ring.stage_at(a, stage);
      barrier_wait(ring.full_at(stage), turn & 1);
      const int leaf = lane / kLanes;
      leaf_sums<kRows, kOutputs>(at, at + static_cast<uint32_t>(a.x_offset), leaf, lane % kLanes,
                                 buffer + (2 * warp + leaf) * kSums);
      __syncwarp();
      if (lane == 0) barrier_arrive(ring.empty_at(stage));
    }
    named_barrier(1, kThreads);
    for (int tile = 0; tile < kWarps && first + tile < a.k_tiles; ++tile) {
      const bool last = tile_in_shard == a.shard_tiles - 1;
#pragma unroll
      for (int i = 0; i < kOwned; ++i) {
        const int index = thread + i * kThreads;
        if (kSums % kThreads != 0 && index >= kSums) break;
        const float* leaf = buffer + 2 * tile * kSums + index;
        sums[i].acc = numerics::add_f32(sums[i].acc, leaf[0]);
        if (!last || !half_tile) sums[i].acc = numerics::add_f32(sums[i].acc, leaf[kSums]);
        if (last) sums[i].end_shard(shard);
      }
      if (++tile_in_shard == a.shard_tiles) tile_in_shard = 0, ++shard;
    }
  }
  wait_for_prerequisites();
#pragma unroll
  for (int i = 0; i < kOwned; ++i) {
    const int index = thread + i * kThreads;
    if (kSums % kThreads != 0 && index >= kSums) break;
    store_output(a, item.row + index / (kOutputs * kLanes), item.n + index % (kOutputs * kLanes), sums[i].total);
  }
  // The next item's first round may write the buffer that slower warps still read.
  named_barrier(1, kThreads);
}

template <int kRows, int kOutputs>
__global__ void __launch_bounds__(kThreads + 32) fma32(const __grid_constant__ StreamArgs a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  const uint32_t base = (shared_address(dynamic) + 1023) & ~1023u;
  const Ring ring = make_ring(a, barriers, base, 1);
  if (threadIdx.x == 0) barrier_init_fence();
  launch_dependents();
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  if (threadIdx.x >= kThreads) {
    produce(a, ring, 0, first, step);
    return;
  }
  auto* const buffers = reinterpret_cast<float*>(dynamic + (base - shared_address(dynamic)) + a.exchange_offset);
  int sequence = 0;
  for (int index = first; index < a.items; index += step, sequence += a.k_tiles) {
    consume_item<kRows, kOutputs>(a, ring, item_at(a, index), sequence, buffers);
  }
}

template <int kRows>
const void* kernel(int outputs) {
  switch (outputs) {
    case 16: return reinterpret_cast<const void*>(fma32<kRows, 1>);
    case 32: return reinterpret_cast<const void*>(fma32<kRows, 2>);
    case 48: return reinterpret_cast<const void*>(fma32<kRows, 3>);
    default: return reinterpret_cast<const void*>(fma32<kRows, 4>);
  }
}

}  // namespace

const void* fma32_kernel(int block_rows, int outputs) {
  switch (block_rows) {
    case 1: return kernel<1>(outputs);
    case 2: return kernel<2>(outputs);
    case 4: return kernel<4>(outputs);
    default: return kernel<8>(outputs);
  }
}

}  // namespace eadem::kernels::cuda
