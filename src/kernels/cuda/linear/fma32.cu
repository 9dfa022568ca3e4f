// fma32 on CUDA cores: the activations stay in registers, the weights pass by.
//
// A CTA has eight warps that multiply. Between them they hold a block of k, 64 tiles of it: a lane has one leaf (32
// elements of k) of up to four rows in its registers, as float32, and takes one output after the other past them, so
// that a weight is read from shared memory and expanded once for four fused multiply-adds. Of eight rows each half of a
// warp has four; with fewer the halves share out the outputs. The leaves' sums go through shared memory to four warps
// that add: each takes every fourth step (up to 32 outputs and rows) and adds its leaves in ascending order, a lane an
// output and row.
#include "core/check.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch_config.h"
#include "kernels/cuda/linear/fma32_ring.cuh"
#include "kernels/cuda/tensor_map.h"
#include "numerics/fma32.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kAdders = 4, kThreads = 32 * (kMultipliers + kAdders);  // warps

// How kRows rows are cut.
template <int kRows>
struct Cut {
  static constexpr int kLaneRows = kRows < 4 ? kRows : 4;  // whose activations a lane holds
  static constexpr bool kHalves = kRows > kLaneRows;       // of a warp have rows of their own
  static constexpr int kSteps = kHalves ? 2 : 1;           // of a slot: outputs that are added at once
  static constexpr int kLaneOutputs = 4;                   // of a step
  static constexpr int kSums = kHalves ? 32 : kFma32Group * kRows;
  static constexpr int kSlots = kSums > 16 ? 2 : 3;  // of a warp's ring
  static constexpr int kBuffers = 4;                 // of leaves' sums
  static constexpr int kBufferBytes = 2 * kBlockTiles * kSums * 4;
  static constexpr int kRingBytes = kMultipliers * kSlots * kSlotBytes;
  static constexpr int kSharedBytes = 1024 + kRingBytes + kBuffers * kBufferBytes;
};

// Of the buffers of sums; shared addresses.
template <int kBuffers>
struct SumBarriers {
  uint32_t empty, full;
  EADEM_DEVICE uint32_t empty_at(int buffer) const { return empty + 8 * static_cast<uint32_t>(buffer); }
  // One for each pair of a buffer and the warp that adds it: a warp that saw only every other phase of a barrier could
  // not tell the one it waits for from the last but one.
  EADEM_DEVICE uint32_t full_at(int buffer, int adder) const {
    return full + 8 * static_cast<uint32_t>(kBuffers * adder + buffer);
  }
};

// ---- Multiplying ----------------------------------------------------------------------------------------------------

EADEM_DEVICE void expand(uint4 chunk, float (&even)[4], float (&odd)[4]) {
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    even[i] = __uint_as_float(words[i] << 16);
    odd[i] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

EADEM_DEVICE uint4 load_chunk(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

// One leaf of a few rows: [row][chunk of eight][even, odd].
template <int kLaneRows>
struct Leaf {
  float even[kLaneRows][4][4], odd[kLaneRows][4][4];

  // tile: of k; second: its second leaf.
  EADEM_DEVICE void load(const Fma32Args& a, int row, int tile, int second) {
    const int in_shard = tile % a.shard_tiles * 64 + second * numerics::kLeaf;
    const bool inside = tile < a.k_tiles && in_shard < a.shard_k;
    const uint16_t* from =
        a.x + static_cast<int64_t>(row) * a.shape.k_padded + tile / a.shard_tiles * a.shard_k + in_shard;
#pragma unroll
    for (int r = 0; r < kLaneRows; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        uint4 chunk = {};
        if (inside && row + r < a.rows) {
          chunk = *reinterpret_cast<const uint4*>(from + static_cast<int64_t>(r) * a.shape.k_padded + 8 * c);
        }
        expand(chunk, even[r][c], odd[r][c]);
      }
    }
  }

  // numerics::fma32_leaf of kOutputs outputs and all rows: output n's weights lie at `at` ^ n * next.
  template <int kOutputs>
  EADEM_DEVICE void sums(uint32_t at, uint32_t next, float (&sum)[kOutputs][kLaneRows]) const {
    float e[kOutputs][kLaneRows] = {}, o[kOutputs][kLaneRows] = {};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int n = 0; n < kOutputs; ++n) {
        float we[4], wo[4];
        expand(load_chunk(at ^ (static_cast<uint32_t>(n) * next ^ static_cast<uint32_t>(16 * c))), we, wo);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int r = 0; r < kLaneRows; ++r) {
            e[n][r] = numerics::fma_f32(even[r][c][i], we[i], e[n][r]);
            o[n][r] = numerics::fma_f32(odd[r][c][i], wo[i], o[n][r]);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
#pragma unroll
      for (int r = 0; r < kLaneRows; ++r) sum[n][r] = numerics::add_f32(e[n][r], o[n][r]);
    }
  }
};

template <int kCount>
EADEM_DEVICE void store_sums(uint32_t to, const float (&sum)[kCount]) {
  if constexpr (kCount == 4) {
    shared_store(to, sum[0], sum[1], sum[2], sum[3]);
  } else if constexpr (kCount == 2) {
    shared_store(to, sum[0], sum[1]);
  } else {
    shared_store(to, __float_as_uint(sum[0]));
  }
}

// Where sums lie in a buffer: [leaf][sum], in which the adder's lane l is given sum l: output l / kRows of the step,
// row l % kRows. Leaves of odd number lie crosswise, so that neighbouring lanes that multiply meet no bank conflict.
template <int kRows>
EADEM_DEVICE uint32_t crossed(uint32_t offset, int odd_leaf) {
  constexpr uint32_t kCross = kRows == 8 ? 16 : kRows == 4 ? 64 : 0;
  return odd_leaf != 0 ? offset ^ kCross : offset;
}

template <int kRows>
class Multiplier {
  using C = Cut<kRows>;
  static constexpr int kTogether = C::kLaneRows == 4 ? 2 : 4;  // outputs: as many chains as hide an addition's latency
  static constexpr uint32_t kNextOutput = kTileRowBytes + 16, kNextStep = 4 * kNextOutput;

 public:
  // base: the shared address of the rings and, behind them, of the sums.
  EADEM_DEVICE Multiplier(uint32_t base, const SumBarriers<C::kBuffers>& barriers)
      : warp_(static_cast<int>(threadIdx.x) / 32),
        half_(static_cast<int>(threadIdx.x) % 32 / 16),
        tile_(static_cast<int>(threadIdx.x) % 16 / 2),
        second_(static_cast<int>(threadIdx.x) % 2),
        barriers_(barriers) {
    // Lanes of a quarter of a warp read different rows of their tiles, hence different banks: output i of a step is row
    // (tile ^ i) % 4 (+ 4 in the other step, or half).
    const int row = tile_ % 4 + (C::kHalves ? 0 : 4 * half_), leaf = 2 * (warp_ * kWarpTiles + tile_) + second_;
    weights_ = static_cast<uint32_t>(tile_ * kPieceBytes + tile_byte(row, 64 * second_));
    sums_ = base + static_cast<uint32_t>(C::kRingBytes + leaf * C::kSums * 4) +
            crossed<kRows>(static_cast<uint32_t>(C::kHalves ? 32 * row + 16 * half_ : 4 * kRows * row), second_);
  }

  EADEM_DEVICE void run(const Fma32Args& a, Ring<C::kSlots, C::kHalves>& ring) {
    int row_block = -1, k_block = -1;
    for (Walk walk; walk.next(a);) {
      for (int b = 0; b < k_blocks(a); ++b) {
        const bool any = ring.takes(a, b);
        if (any && (walk.row_block != row_block || b != k_block)) {
          row_block = walk.row_block, k_block = b;
          x_.load(a, row_block * kRows + (C::kHalves ? 4 * half_ : 0), b * kBlockTiles + warp_ * kWarpTiles + tile_,
                  second_);
        }
        for (int g = 0; g < walk.count; ++g) {
          const uint32_t at = any ? ring.wait() + weights_ : 0;
#pragma unroll 1
          for (int i = 0; i < C::kSteps; ++i) step(at ^ static_cast<uint32_t>(i) * kNextStep, any, g * C::kSteps + i);
          if (any) ring.release(a);
        }
      }
    }
  }

 private:
  // at: this lane's weights of the step's outputs, if there are any.
  EADEM_DEVICE void step(uint32_t at, bool any, int index) {
    const uint32_t to = sums_ + static_cast<uint32_t>(buffer_ * C::kBufferBytes);
    if (any) {
#pragma unroll
      for (int n = 0; n < C::kLaneOutputs; n += kTogether) {
        float sum[kTogether][C::kLaneRows];
        x_.template sums<kTogether>(at ^ static_cast<uint32_t>(n) * kNextOutput, kNextOutput, sum);
        if (n == 0) barrier_wait(barriers_.empty_at(buffer_), parity_);
#pragma unroll
        for (int m = 0; m < kTogether; ++m) store_sums(to ^ static_cast<uint32_t>((n + m) * 4 * kRows), sum[m]);
      }
    } else {
      barrier_wait(barriers_.empty_at(buffer_), parity_);
    }
    __syncwarp();
    group_arrive(barriers_.full_at(buffer_, index % kAdders), threadIdx.x % 32 == 0);
    if (++buffer_ == C::kBuffers) buffer_ = 0, parity_ ^= 1;
  }

  int warp_, half_, tile_, second_;
  SumBarriers<C::kBuffers> barriers_;
  uint32_t weights_, sums_;
  Leaf<C::kLaneRows> x_;
  int buffer_ = 0;
  uint32_t parity_ = 1;
};

// ---- Adding ---------------------------------------------------------------------------------------------------------

// The sums of one output and row: leaves of a shard in order, then the shard tree.
struct OutputSum {
  float acc, one, two, four, total;
  EADEM_DEVICE void end_shard(int shard) {
    total = acc;
    acc = 0.0f;
    if ((shard & 1) == 0) {
      one = total;
      return;
    }
    total = numerics::add_f32(one, total);
    if ((shard & 2) == 0) {
      two = total;
      return;
    }
    total = numerics::add_f32(two, total);
    if ((shard & 4) == 0) {
      four = total;
    } else {
      total = numerics::add_f32(four, total);
    }
  }
};

EADEM_DEVICE float shared_float(uint32_t address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
  return v;
}

// Where an adder is among the shards.
struct ShardCursor {
  int shard, end;  // the tile after its last
};

// Adds the tiles first ... end - 1 of a block of k, whose leaves' sums lie from `at` on (the second leaves': `other`).
template <int kSums>
EADEM_DEVICE void add_tiles(const Fma32Args& a, int first, int end, uint32_t at, uint32_t other, ShardCursor cursor,
                            OutputSum& sum) {
  constexpr int kPair = 2 * kSums * 4, kAtOnce = 8;
  const bool half_tile = a.shard_k % 64 != 0;  // a shard's last tile holds one leaf
  float next[2 * kAtOnce];
  const auto load = [&] {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      next[2 * i] = shared_float(at + static_cast<uint32_t>(i * kPair));
      next[2 * i + 1] = shared_float(other + static_cast<uint32_t>(i * kPair));
    }
  };
  load();
#pragma unroll 1
  for (int tile = first; tile < end; tile += kAtOnce) {
    float leaf[2 * kAtOnce];
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) leaf[i] = next[i];
    // The last ones are loaded once more: a branch would wait for them.
    const uint32_t further = tile + kAtOnce < end ? kAtOnce * kPair : 0;
    at += further, other += further;
    const bool ends = cursor.end <= tile + kAtOnce;
    if (tile + kAtOnce <= end && (!ends || (cursor.end == tile + kAtOnce && !half_tile))) {
      load();
#pragma unroll
      for (const float value : leaf) sum.acc = numerics::add_f32(sum.acc, value);
      if (ends) sum.end_shard(cursor.shard++), cursor.end += a.shard_tiles;
      continue;
    }
    load();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (tile + i >= end) break;
      const bool last = tile + i + 1 == cursor.end;
      sum.acc = numerics::add_f32(sum.acc, leaf[2 * i]);
      if (!last || !half_tile) sum.acc = numerics::add_f32(sum.acc, leaf[2 * i + 1]);
      if (last) sum.end_shard(cursor.shard++), cursor.end += a.shard_tiles;
    }
  }
}

// y = sum (+ bias), or y + that.
EADEM_DEVICE void store_output(const Fma32Args& a, int row, int n, float sum) {
  if (row >= a.rows || n >= a.shape.n) return;
  if (a.bias != nullptr) sum = numerics::add_f32(sum, a.bias[n]);
  float* y = a.y + row * a.y_stride + n;
  *y = a.add_to_y ? numerics::add_f32(*y, sum) : sum;
}

template <int kRows>
EADEM_DEVICE void add(const Fma32Args& a, uint32_t base, const SumBarriers<Cut<kRows>::kBuffers>& barriers) {
  using C = Cut<kRows>;
  const int adder = static_cast<int>(threadIdx.x) / 32 - kMultipliers, lane = static_cast<int>(threadIdx.x) % 32;
  const auto offset = static_cast<uint32_t>(lane % C::kSums * 4);
  const uint32_t at = base + C::kRingBytes + offset;
  const uint32_t other = base + C::kRingBytes + C::kSums * 4 + crossed<kRows>(offset, 1);
  Walk walk;
  int done = 0;  // steps before this batch and block of k
  uint32_t parities = 0;
  while (walk.next(a)) {
    OutputSum sums[C::kSteps] = {};
    const int steps = walk.count * C::kSteps;
    for (int b = 0; b < k_blocks(a); ++b, done += steps) {
      const int shard = b * kBlockTiles / a.shard_tiles;
      const ShardCursor cursor{shard, (shard + 1) * a.shard_tiles};
#pragma unroll
      for (int i = 0; i < C::kSteps; ++i) {
        const int step = kAdders * i + adder;
        if (step >= steps) break;
        const int buffer = (done + step) % C::kBuffers;
        barrier_wait(barriers.full_at(buffer, adder), parities >> buffer & 1);
        parities ^= 1u << buffer;
        const auto shift = static_cast<uint32_t>(buffer * C::kBufferBytes);
        add_tiles<C::kSums>(a, b * kBlockTiles, min((b + 1) * kBlockTiles, a.k_tiles), at + shift, other + shift,
                            cursor, sums[i]);
        __syncwarp();
        group_arrive(barriers.empty_at(buffer), lane == 0);
      }
    }
#pragma unroll
    for (int i = 0; i < C::kSteps; ++i) {
      const int step = kAdders * i + adder;
      if (step >= steps || lane >= C::kSums) break;
      const int n = walk.group(step / C::kSteps) * kFma32Group + step % C::kSteps * C::kLaneOutputs + lane / kRows;
      store_output(a, walk.row_block * kRows + lane % kRows, n, sums[i].total);
    }
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreads, 1) fma32(const __grid_constant__ Fma32Args a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  constexpr int kSlots = Cut<kRows>::kSlots, kBuffers = Cut<kRows>::kBuffers;
  __shared__ uint64_t full[kMultipliers * kSlots], sums_empty[kBuffers], sums_full[kBuffers * kAdders];
  const uint32_t base = (shared_address(dynamic) + 1023) & ~1023u, slots_full = shared_address(full);
  const SumBarriers<kBuffers> barriers{shared_address(sums_empty), shared_address(sums_full)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kMultipliers * kSlots; ++i) barrier_init(slots_full + 8 * static_cast<uint32_t>(i), 1);
    for (int i = 0; i < kBuffers; ++i) {
      barrier_init(barriers.empty_at(i), group_arrivals(1, 32));
      for (int j = 0; j < kAdders; ++j) barrier_init(barriers.full_at(i, j), group_arrivals(kMultipliers, 32));
    }
    barrier_init_fence();
  }
  launch_dependents();
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp >= kMultipliers) {
    if constexpr (kRows >= 4) registers_give<88>();
    wait_for_prerequisites();
    add<kRows>(a, base, barriers);
  } else {
    if constexpr (kRows >= 4) registers_take<208>();
    const auto slot = static_cast<uint32_t>(warp * kSlots);
    Ring<kSlots, Cut<kRows>::kHalves> ring(a, warp, base + slot * kSlotBytes, slots_full + 8 * slot);
    for (int i = 0; i < kSlots; ++i) ring.fill(a);  // weights: no kernel writes them
    wait_for_prerequisites();
    Multiplier<kRows>(base, barriers).run(a, ring);
  }
}

template <int kRows>
void launch(cudaStream_t stream, const Fma32Args& args, int ctas) {
  constexpr int kBytes = Cut<kRows>::kSharedBytes;
  static_assert(kBytes <= 226 * 1024);  // of 227 KB, where the barriers are too
  EADEM_CHECK(cudaFuncSetAttribute(fma32<kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) == cudaSuccess);
  const LaunchConfig config(dim3(static_cast<unsigned>(ctas)), kThreads, kBytes, stream);
  EADEM_CHECK(cudaLaunchKernelEx(config.get(), fma32<kRows>, args) == cudaSuccess);
}

}  // namespace

void linear_fma32(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors) {
  const LinearShape& s = *call.shape;
  Fma32Args a;
  a.shape = s, a.weights = call.weights, a.x = call.x.operands, a.bias = call.bias;
  a.y = call.y, a.y_stride = call.y_stride, a.add_to_y = call.add_to_y, a.rows = rows;
  a.shard_k = shard_k(s), a.shard_tiles = shard_tiles(s), a.k_tiles = k_tiles(s);
  if (plan.rows == 8) {
    const auto tiles = static_cast<uint64_t>(a.k_tiles);
    a.boxes = make_tensor_map(call.weights, TensorElement::kFloat32,
                              {kTileBytes / 4, tiles, static_cast<uint64_t>(row_tiles(s))},
                              {kTileBytes, tiles * kTileBytes}, {kPieceBytes / 4, kWarpTiles, 1}, TensorSwizzle::kNone);
  }
  a.groups = (s.n + kFma32Group - 1) / kFma32Group, a.row_blocks = (rows + plan.rows - 1) / plan.rows;
  a.batch = plan.outputs / kFma32Group;
  const int ctas = static_cast<int>(std::min<int64_t>(processors, static_cast<int64_t>(a.groups) * a.row_blocks));
  switch (plan.rows) {
    case 1: return launch<1>(stream, a, ctas);
    case 2: return launch<2>(stream, a, ctas);
    case 4: return launch<4>(stream, a, ctas);
    default: return launch<8>(stream, a, ctas);
  }
}

}  // namespace eadem::kernels::cuda
