// One block of threads, or one warp, a row: the arithmetic is numerics/layer.h's, element after element; sums have
// their 256 logical lanes in the threads' registers.
#include "kernels/cuda/rows/rows.h"

#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "numerics/layer.h"
#include "numerics/operand.h"

namespace eadem::kernels::cuda {
namespace {

using numerics::kKvBlock;
using numerics::kLanes;

// kCount neighbouring elements as one access.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T x[kCount];
};

template <int kCount>
__device__ __forceinline__ bool store_operands(const float (&x)[kCount], uint16_t* y) {
  Pack<uint16_t, kCount> out;
  bool good = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    good &= !numerics::is_nan(x[i]);
    out.x[i] = numerics::bf16_operand(x[i]);
  }
  *reinterpret_cast<Pack<uint16_t, kCount>*>(y) = out;
  return good;
}

// ---- Embedding, gather ----------------------------------------------------------------------------------------------

template <int kVector>
__global__ void embed_kernel(const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int n, float* h) {
  wait_for_prerequisites();
  const int64_t row = blockIdx.x;
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kVector;
  int32_t token = tokens[row];
  if (token < -1) token = drawn[-2 - token].token;  // token_of_draw
  if (i >= n || token < 0) return;
  const auto in = *reinterpret_cast<const Pack<uint16_t, kVector>*>(table + int64_t{token} * n + i);
  Pack<float, kVector> out;
#pragma unroll
  for (int j = 0; j < kVector; ++j) out.x[j] = numerics::operand_value(in.x[j]);
  *reinterpret_cast<Pack<float, kVector>*>(h + row * n + i) = out;
}

template <int kVector>
__global__ void gather_kernel(const uint16_t* from, const int32_t* indices, int width, uint16_t* to) {
  wait_for_prerequisites();
  const int64_t row = blockIdx.x;
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kVector;
  const int64_t index = indices[row];
  if (i >= width || index < 0) return;
  using Chunk = Pack<uint16_t, kVector>;
  *reinterpret_cast<Chunk*>(to + row * width + i) = *reinterpret_cast<const Chunk*>(from + index * width + i);
}

// ---- RMSNorm --------------------------------------------------------------------------------------------------------

// A thread's lanes are kVector neighbours; 256 / kVector threads a row.
template <int kVector>
struct RowLanes {
  using Chunk = Pack<float, kVector>;
  static constexpr int kThreads = kLanes / kVector;
  static constexpr int kHeld = 16;  // steps whose elements stay in registers for the second pass: 4,096 elements

  __device__ static Chunk load(const float* x, int n, int i) {
    return i < n ? *reinterpret_cast<const Chunk*>(x + i) : Chunk{};
  }

  // The tree over all threads' lanes.
  __device__ static float join(const float (&lanes)[kVector]) {
    __shared__ float warps[kThreads / 32];
    const float sum = tree_of_threads<32>(tree_of_values(lanes));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    float all[kThreads / 32];
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) all[i] = warps[i];
    return tree_of_values(all);
  }
};

template <int kVector>
__global__ void __launch_bounds__(RowLanes<kVector>::kThreads)
    rms_norm_kernel(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y, bool* bad) {
  using Lanes = RowLanes<kVector>;
  using Chunk = typename Lanes::Chunk;
  launch_dependents();
  const int64_t row = blockIdx.x;
  x += row * n, y += row * n_padded;
  const int first = threadIdx.x * kVector;
  // Weights never change, so that they need not wait; one element a thread is the kernel of few rows, which has nothing
  // else to hide their latency behind.
  Chunk weights[Lanes::kHeld];
  if (kVector == 1) {
#pragma unroll
    for (int s = 0; s < Lanes::kHeld; ++s) weights[s] = Lanes::load(weight, n, first + s * kLanes);
  }
  wait_for_prerequisites();
  Chunk held[Lanes::kHeld];
  float lanes[kVector] = {};
  // Past the end a lane adds 0 * 0, which changes nothing: a lane is never -0.
  const auto add = [&](const Chunk& chunk) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) lanes[i] = numerics::fma_f32(chunk.x[i], chunk.x[i], lanes[i]);
  };
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) held[s] = Lanes::load(x, n, first + s * kLanes);
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) add(held[s]);
#pragma unroll 8
  for (int i = first + Lanes::kHeld * kLanes; i < n; i += kLanes) add(Lanes::load(x, n, i));
  const float factor = numerics::rms_factor(Lanes::join(lanes), n, eps);

  bool good = true;
  const auto write = [&](const Chunk& chunk, const Chunk& w, int i) {
    if (i >= n) return;
    float scaled[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) scaled[j] = numerics::rms_scale(chunk.x[j], factor, w.x[j]);
    good &= store_operands(scaled, y + i);
  };
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) {
    const int i = first + s * kLanes;
    write(held[s], kVector == 1 ? weights[s] : Lanes::load(weight, n, i), i);
  }
#pragma unroll 4
  for (int i = first + Lanes::kHeld * kLanes; i < n; i += kLanes) {
    write(Lanes::load(x, n, i), Lanes::load(weight, n, i), i);
  }
  for (int i = n + static_cast<int>(threadIdx.x); i < n_padded; i += Lanes::kThreads) y[i] = 0;
  if (!good) bad[row] = true;
}

// ---- SwiGLU ---------------------------------------------------------------------------------------------------------

template <int kVector>
__global__ void swiglu_kernel(const float* gate_up, int n, int n_padded, uint16_t* y, bool* bad) {
  launch_dependents();
  wait_for_prerequisites();
  const int64_t row = blockIdx.x;
  gate_up += row * 2 * n, y += row * n_padded;
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kVector;
  if (i >= n_padded) return;
  float out[kVector] = {};
  if (i < n) {
    const auto gate = *reinterpret_cast<const Pack<float, kVector>*>(gate_up + i);
    const auto up = *reinterpret_cast<const Pack<float, kVector>*>(gate_up + n + i);
#pragma unroll
    for (int j = 0; j < kVector; ++j) out[j] = numerics::swiglu(gate.x[j], up.x[j]);
  }
  if (!store_operands(out, y + i)) bad[row] = true;
}

// ---- q, k, v --------------------------------------------------------------------------------------------------------

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
    split_qkv_kernel(const QkvShape shape, const int head_padded, const DeviceQkvCall call) {
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
    const int kv_head = (head - shape.heads) % shape.kv_heads;
    const int32_t block = call.kv.tables[call.sequences[row] * call.kv.table_stride + position / kKvBlock];
    image = reinterpret_cast<uint16_t*>(call.kv.base + static_cast<size_t>(block) * call.kv.block_stride +
                                        static_cast<size_t>(kv_head) * call.kv.head_stride +
                                        (is_v ? kv_image_bytes(head_padded) : 0));
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

// kEach: as few elements a thread as hold the head.
template <int kEach>
void launch_split_qkv(cudaStream_t stream, const QkvShape& shape, int head_padded, const DeviceQkvCall& call,
                      int rows) {
  const dim3 grid(rows, (shape.heads + 2 * shape.kv_heads + kHeadWarps - 1) / kHeadWarps);
  const bool chunks = shape.head_size % kEach == 0 && shape.rotary % (2 * kEach) == 0 && is_aligned(call.qkv, 32) &&
                      is_aligned(call.cosine, 32) && is_aligned(call.sine, 32) && is_aligned(shape.q_norm, 32) &&
                      is_aligned(shape.k_norm, 32);
  if (chunks) {
    launch(split_qkv_kernel<kEach, true>, grid, 32 * kHeadWarps, 0, stream, shape, head_padded, call);
  } else {
    launch(split_qkv_kernel<kEach, false>, grid, 32 * kHeadWarps, 0, stream, shape, head_padded, call);
  }
}

int blocks_of(int n, int each) { return (n + each - 1) / each; }

}  // namespace

void embed(cudaStream_t stream, const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
           float* h) {
  constexpr int kThreads = 128;
  if (aligned16(table, n, 2) && aligned16(h, n, 4)) {
    launch(embed_kernel<4>, dim3(rows, blocks_of(n, 4 * kThreads)), kThreads, 0, stream, table, tokens, drawn, n, h);
  } else {
    launch(embed_kernel<1>, dim3(rows, blocks_of(n, kThreads)), kThreads, 0, stream, table, tokens, drawn, n, h);
  }
}

void rms_norm(cudaStream_t stream, const float* x, const float* weight, int rows, int n, int n_padded, float eps,
              uint16_t* y, bool* bad) {
  constexpr int kManyRows = 264;  // enough for two blocks of threads on every processor
  if (rows >= kManyRows && aligned16(x, n, 4) && aligned16(weight, n, 4) && aligned16(y, n_padded, 2)) {
    launch(rms_norm_kernel<4>, rows, 64, 0, stream, x, weight, n, n_padded, eps, y, bad);
  } else {
    launch(rms_norm_kernel<1>, rows, 256, 0, stream, x, weight, n, n_padded, eps, y, bad);
  }
}

void split_qkv(cudaStream_t stream, const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call,
               int rows) {
  const int padded = attention.head_padded;
  EADEM_CHECK(padded <= numerics::kMaxHead);
  if (padded <= 64) {
    launch_split_qkv<2>(stream, shape, padded, call, rows);
  } else if (padded <= 128) {
    launch_split_qkv<4>(stream, shape, padded, call, rows);
  } else {
    launch_split_qkv<8>(stream, shape, padded, call, rows);
  }
}

void swiglu(cudaStream_t stream, const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) {
  constexpr int kThreads = 128;
  if (aligned16(gate_up, n, 4) && aligned16(y, n_padded, 2)) {
    const dim3 grid(rows, blocks_of(n_padded, 4 * kThreads));
    launch(swiglu_kernel<4>, grid, kThreads, 0, stream, gate_up, n, n_padded, y, bad);
  } else {
    const dim3 grid(rows, blocks_of(n_padded, kThreads));
    launch(swiglu_kernel<1>, grid, kThreads, 0, stream, gate_up, n, n_padded, y, bad);
  }
}

void gather(cudaStream_t stream, const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) {
  constexpr int kThreads = 128;
  if (aligned16(from, width, 2) && aligned16(to, width, 2)) {
    launch(gather_kernel<8>, dim3(count, blocks_of(width, 8 * kThreads)), kThreads, 0, stream, from, indices, width,
           to);
  } else {
    launch(gather_kernel<1>, dim3(count, blocks_of(width, kThreads)), kThreads, 0, stream, from, indices, width, to);
  }
}

}  // namespace eadem::kernels::cuda
