// q, k and v of a step: norms, rope and operands; keys and values go to their blocks. Few rows and heads of any size
// take a warp a head; many rows of heads of 64, 128 or 256 a warp for several.
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows/operands.cuh"
#include "kernels/cuda/rows/rows.h"
#include "numerics/layer.h"

namespace eadem::kernels::cuda {
namespace {

using numerics::kKvBlock;

// Where the key, or the value, of a row and KV head goes.
__device__ __forceinline__ uint16_t* image_of(const DeviceQkvCall& call, int64_t row, int64_t position, int kv_head,
                                              bool is_v, int head_padded) {
  const int32_t block = call.kv.tables[call.sequences[row] * call.kv.table_stride + position / kKvBlock];
  return reinterpret_cast<uint16_t*>(call.kv.base + static_cast<size_t>(block) * call.kv.block_stride +
                                     static_cast<size_t>(kv_head) * call.kv.head_stride +
                                     (is_v ? kv_image_bytes(head_padded) : 0));
}

// ---- A warp a head --------------------------------------------------------------------------------------------------

constexpr int kHeadWarps = 4;  // heads of a block

// The head's norm: thread t holds elements kEach t ... kEach t + kEach - 1 of x, zeros past its end, so that the tree
// over adjacent lanes is one over a thread's and then over the warp's. What is above the head in the 256 lanes is +0,
// which changes no sum of squares. weight: zeros past the head's end.
template <int kEach>
__device__ __forceinline__ void norm_head(const QkvShape& shape, const Pack<float, kEach>& weight,
                                          Pack<float, kEach>& mine) {
  float squares[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) squares[i] = numerics::fma_f32(mine.x[i], mine.x[i], 0.0f);
  const float sum = tree_of_threads<32>(tree_of_values(squares));
  const float factor = numerics::rms_factor(sum, shape.head_size, shape.eps);
  const int first = static_cast<int>(threadIdx.x) % 32 * kEach;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (first + i < shape.head_size) mine.x[i] = numerics::rms_scale(mine.x[i], factor, weight.x[i]);
  }
}

// kEach neighbours of a head, zeros past its end.
template <int kEach, bool kChunks>
__device__ __forceinline__ Pack<float, kEach> load_chunk(const float* x, int size, int first) {
  Pack<float, kEach> chunk{};
  if (kChunks) {
    if (first < size) chunk = *reinterpret_cast<const Pack<float, kEach>*>(x + first);
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) chunk.x[i] = first + i < size ? x[first + i] : 0.0f;
  }
  return chunk;
}

// Rope of a head whose threads hold whole chunks of either half: a thread's partner is half a rotation away. cosine,
// sine: of this thread's pairs.
template <int kEach>
__device__ __forceinline__ void rotate_by_shuffles(int half, const Pack<float, kEach>& cosine,
                                                   const Pack<float, kEach>& sine, int lane, Pack<float, kEach>& mine) {
  const int first = lane * kEach, distance = half / kEach;
  const bool low = first < half, inside = first < 2 * half;
  const int partner = !inside ? lane : low ? lane + distance : lane - distance;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float other = __shfl_sync(kWholeWarp, mine.x[i], partner);
    float x1 = low ? mine.x[i] : other, x2 = low ? other : mine.x[i];
    numerics::rotate(x1, x2, cosine.x[i], sine.x[i]);
    if (inside) mine.x[i] = low ? x1 : x2;
  }
}

// Rope of any head, through shared memory.
template <int kEach>
__device__ __forceinline__ void rotate_by_memory(int half, const float* cosine, const float* sine, int lane,
                                                 float* staged, Pack<float, kEach>& mine) {
  using Chunk = Pack<float, kEach>;
  *reinterpret_cast<Chunk*>(staged + lane * kEach) = mine;
  __syncwarp();
  for (int i = lane; i < half; i += 32) numerics::rotate(staged[i], staged[half + i], cosine[i], sine[i]);
  __syncwarp();
  mine = *reinterpret_cast<const Chunk*>(staged + lane * kEach);
}

// One warp a (row, head) of q, k or v, kEach neighbouring elements a thread, zeros past the head. kChunks: heads and
// their rotated halves are whole chunks of kEach. What was there before the step's first kernel is read before the
// kernel before this one is over.
template <int kEach, bool kChunks>
__global__ void __launch_bounds__(32 * kHeadWarps)
    heads_kernel(const QkvShape shape, const int head_padded, const DeviceQkvCall call) {
  using Chunk = Pack<float, kEach>;
  __shared__ alignas(32) float staged[kChunks ? 1 : kHeadWarps][kChunks ? 1 : 32 * kEach];
  launch_dependents();
  const int lane = threadIdx.x % 32, first = lane * kEach;
  const int head = static_cast<int>(blockIdx.y * kHeadWarps + threadIdx.x / 32);
  const int64_t row = blockIdx.x;
  const int heads = shape.heads + 2 * shape.kv_heads, size = shape.head_size, half = shape.rotary / 2;
  const bool is_q = head < shape.heads, is_v = head >= shape.heads + shape.kv_heads;
  const int64_t position = call.positions[row];
  const float* const norm = is_v ? nullptr : is_q ? shape.q_norm : shape.k_norm;
  const float *const cosine = call.cosine + row * half, *const sine = call.sine + row * half;
  const bool here = head < heads && position >= 0;
  Chunk weight{}, c{}, s{};
  uint16_t* image = nullptr;
  if (here && norm != nullptr) weight = load_chunk<kEach, kChunks>(norm, size, first);
  if (here && kChunks && !is_v && first < 2 * half) {
    c = *reinterpret_cast<const Chunk*>(cosine + (first < half ? first : first - half));
    s = *reinterpret_cast<const Chunk*>(sine + (first < half ? first : first - half));
  }
  if (here && !is_q) {
    image = image_of(call, row, position, (head - shape.heads) % shape.kv_heads, is_v, head_padded);
  }
  wait_for_prerequisites();
  if (!here) return;

  Chunk mine = load_chunk<kEach, kChunks>(call.qkv + (row * heads + head) * size, size, first);
  if (norm != nullptr) norm_head(shape, weight, mine);
  if (!is_v && kChunks) rotate_by_shuffles(half, c, s, lane, mine);
  if (!is_v && !kChunks) rotate_by_memory(half, cosine, sine, lane, staged[threadIdx.x / 32], mine);

  // Whole chunks, their elements past the head zeros: both q and the blocks have room for them.
  bool good = true;
  if (is_q) {
    uint16_t* q = call.q + (row * shape.heads + head) * head_padded;
    if (first < head_padded) good = store_operands(mine.x, q + first);
  } else if (first < size) {
    good = store_operands(mine.x, image + kv_element(static_cast<int>(position % kKvBlock), first));
  }
  if (!good) call.bad[row] = true;
}

bool all_aligned(const QkvShape& shape, const DeviceQkvCall& call, uintptr_t bytes) {
  return is_aligned(call.qkv, bytes) && is_aligned(call.cosine, bytes) && is_aligned(call.sine, bytes) &&
         is_aligned(shape.q_norm, bytes) && is_aligned(shape.k_norm, bytes);
}

// kEach: as few elements a thread as hold the head.
template <int kEach>
void launch_heads(cudaStream_t stream, const QkvShape& shape, int head_padded, const DeviceQkvCall& call, int rows) {
  const dim3 grid(rows, (shape.heads + 2 * shape.kv_heads + kHeadWarps - 1) / kHeadWarps);
  if (shape.head_size % kEach == 0 && shape.rotary % (2 * kEach) == 0 && all_aligned(shape, call, 32)) {
    launch(heads_kernel<kEach, true>, grid, 32 * kHeadWarps, 0, stream, shape, head_padded, call);
  } else {
    launch(heads_kernel<kEach, false>, grid, 32 * kHeadWarps, 0, stream, shape, head_padded, call);
  }
}

// ---- A warp for several heads ---------------------------------------------------------------------------------------

constexpr int kTogether = 4;  // heads of a thread
constexpr int kRowWarps = 4;  // of a block of threads

// kGroup threads a head, each with four neighbours of either half, so that rope's pairs meet in a thread; a warp has
// kTogether * 32 / kGroup heads of one row, all of them q, k or v, and reads all of them before it uses the first. Rows
// go backwards, as rms_norm's do.
template <int kGroup>
struct RowHeads {
  using Chunk = Pack<float, 4>;
  static constexpr int kHalf = 4 * kGroup, kSize = 2 * kHalf;
  static constexpr int kWarpHeads = kTogether * 32 / kGroup;

  struct Head {
    Chunk low, high;
  };

  // Sums of squares meet in the tree of norm_head. One thread in four takes the root for each head.
  __device__ static void norm(const QkvShape& shape, const Head& weight, Head (&heads)[kTogether]) {
    float sums[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      float low[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low[i] = numerics::fma_f32(heads[u].low.x[i], heads[u].low.x[i], 0.0f);
        high[i] = numerics::fma_f32(heads[u].high.x[i], heads[u].high.x[i], 0.0f);
      }
      sums[u] = numerics::add_f32(tree_of_threads<kGroup>(tree_of_values(low)),
                                  tree_of_threads<kGroup>(tree_of_values(high)));
    }
    const int lane = threadIdx.x % 32;
    const float sum = lane & 2 ? (lane & 1 ? sums[3] : sums[2]) : (lane & 1 ? sums[1] : sums[0]);
    const float own = numerics::rms_factor(sum, kSize, shape.eps);
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const float factor = __shfl_sync(kWholeWarp, own, (lane & ~3) + u);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        heads[u].low.x[i] = numerics::rms_scale(heads[u].low.x[i], factor, weight.low.x[i]);
        heads[u].high.x[i] = numerics::rms_scale(heads[u].high.x[i], factor, weight.high.x[i]);
      }
    }
  }

  // Warps that the heads of one kind take.
  __host__ __device__ static int warps_of(int heads) { return (heads + kWarpHeads - 1) / kWarpHeads; }
};

template <int kGroup>
__global__ void __launch_bounds__(32 * kRowWarps)
    row_heads_kernel(const QkvShape shape, const DeviceQkvCall call, const int rows) {
  using Heads = RowHeads<kGroup>;
  using Chunk = typename Heads::Chunk;
  static_assert(kTogether == 4);
  launch_dependents();
  const int lane = threadIdx.x % 32, group = lane / kGroup, first = lane % kGroup * 4;
  const int q_warps = Heads::warps_of(shape.heads), kv_warps = Heads::warps_of(shape.kv_heads);
  const int warps = q_warps + 2 * kv_warps, warp = static_cast<int>(blockIdx.x * kRowWarps + threadIdx.x / 32);
  const int64_t row = rows - 1 - warp / warps;
  if (row < 0) return wait_for_prerequisites();  // no kernel may end before the one before it
  const int part = warp % warps;
  const bool is_q = part < q_warps, is_v = part >= q_warps + kv_warps;
  const int count = is_q ? shape.heads : shape.kv_heads;  // of the kind; this thread's are 32 / kGroup apart
  const int begin = (is_q ? part : (part - q_warps) % kv_warps) * Heads::kWarpHeads + group;
  const int before = is_q ? 0 : is_v ? shape.heads + shape.kv_heads : shape.heads;
  const float* const norm = is_v ? nullptr : is_q ? shape.q_norm : shape.k_norm;
  const auto load = [&](const float* x) -> typename Heads::Head {
    return {*reinterpret_cast<const Chunk*>(x + first), *reinterpret_cast<const Chunk*>(x + Heads::kHalf + first)};
  };
  const int64_t position = call.positions[row];
  if (position < 0) return wait_for_prerequisites();
  typename Heads::Head weight{};
  Chunk cosine{}, sine{};
  if (norm != nullptr) weight = load(norm);
  if (!is_v) {
    cosine = *reinterpret_cast<const Chunk*>(call.cosine + row * Heads::kHalf + first);
    sine = *reinterpret_cast<const Chunk*>(call.sine + row * Heads::kHalf + first);
  }
  const int slot = static_cast<int>(position % kKvBlock);
  uint16_t* const target = is_q ? call.q + row * count * Heads::kSize + first
                                : image_of(call, row, position, 0, is_v, Heads::kSize) + kv_element(slot, first);
  const int64_t stride = is_q ? Heads::kSize : static_cast<int64_t>(call.kv.head_stride / sizeof(uint16_t));
  const int to_high = is_q ? Heads::kHalf : kv_element(slot, Heads::kHalf + first) - kv_element(slot, first);
  wait_for_prerequisites();

  typename Heads::Head heads[kTogether] = {};
  const float* const from = call.qkv + (row * (shape.heads + 2 * shape.kv_heads) + before) * Heads::kSize;
#pragma unroll
  for (int u = 0; u < kTogether; ++u) {
    const int head = begin + u * (32 / kGroup);
    if (head < count) heads[u] = load(from + head * Heads::kSize);
  }
  if (norm != nullptr) Heads::norm(shape, weight, heads);
  bool good = true;
#pragma unroll
  for (int u = 0; u < kTogether; ++u) {
    const int head = begin + u * (32 / kGroup);
    if (head >= count) continue;
    if (!is_v) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        numerics::rotate(heads[u].low.x[i], heads[u].high.x[i], cosine.x[i], sine.x[i]);
      }
    }
    uint16_t* const low = target + head * stride;
    good &= store_operands(heads[u].low.x, low);
    good &= store_operands(heads[u].high.x, low + to_high);
  }
  if (!good) call.bad[row] = true;
}

template <int kGroup>
void launch_row_heads(cudaStream_t stream, const QkvShape& shape, const DeviceQkvCall& call, int rows) {
  using Heads = RowHeads<kGroup>;
  const int64_t warps = int64_t{rows} * (Heads::warps_of(shape.heads) + 2 * Heads::warps_of(shape.kv_heads));
  const auto blocks = static_cast<unsigned>((warps + kRowWarps - 1) / kRowWarps);
  launch(row_heads_kernel<kGroup>, blocks, 32 * kRowWarps, 0, stream, shape, call, rows);
}

}  // namespace

void split_qkv(cudaStream_t stream, const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call,
               int rows) {
  const int padded = attention.head_padded, size = shape.head_size;
  EADEM_CHECK(padded <= numerics::kMaxHead);
  constexpr int kManyRows = 264;  // with fewer, a warp a head is sooner done
  if (rows >= kManyRows && shape.rotary == size && padded == size && all_aligned(shape, call, 16)) {
    if (size == 64) return launch_row_heads<8>(stream, shape, call, rows);
    if (size == 128) return launch_row_heads<16>(stream, shape, call, rows);
    if (size == 256) return launch_row_heads<32>(stream, shape, call, rows);
  }
  if (padded <= 64) {
    launch_heads<2>(stream, shape, padded, call, rows);
  } else if (padded <= 128) {
    launch_heads<4>(stream, shape, padded, call, rows);
  } else {
    launch_heads<8>(stream, shape, padded, call, rows);
  }
}

}  // namespace eadem::kernels::cuda
