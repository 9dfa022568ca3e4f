// Embedding, gather, RMSNorm, SwiGLU: the arithmetic is numerics/layer.h's, element after element; sums have their 256
// logical lanes in the threads' registers.
#include "kernels/cuda/rows/rows.h"

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows/operands.cuh"
#include "numerics/layer.h"
#include "numerics/operand.h"

namespace eadem::kernels::cuda {
namespace {

using numerics::kLanes;

// ---- Embedding, gather ----------------------------------------------------------------------------------------------

// Both take kChunks chunks of kVector elements a thread, all of them under way before the first is used. kFew: the next
// kernel may come up at once; with many rows its blocks of threads would wait in the place of this one's.

template <int kVector, int kChunks, bool kFew>
__global__ void embed_kernel(const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int n, float* h) {
  if (kFew) launch_dependents();
  wait_for_prerequisites();
  const int64_t row = blockIdx.x;
  const int stride = static_cast<int>(blockDim.x) * kVector;
  const int begin = static_cast<int>(blockIdx.y) * stride * kChunks + static_cast<int>(threadIdx.x) * kVector;
  int32_t token = tokens[row];
  if (token < -1) token = drawn[-2 - token].token;  // token_of_draw
  if (token < 0) return;
  table += int64_t{token} * n, h += row * n;
  Pack<uint16_t, kVector> in[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int i = begin + c * stride;
    if (i < n) in[c] = *reinterpret_cast<const Pack<uint16_t, kVector>*>(table + i);
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int i = begin + c * stride;
    Pack<float, kVector> out;
#pragma unroll
    for (int j = 0; j < kVector; ++j) out.x[j] = numerics::operand_value(in[c].x[j]);
    if (i < n) *reinterpret_cast<Pack<float, kVector>*>(h + i) = out;
  }
}

template <int kVector, int kChunks, bool kFew>
__global__ void gather_kernel(const uint16_t* from, const int32_t* indices, int width, uint16_t* to) {
  if (kFew) launch_dependents();
  wait_for_prerequisites();
  using Chunk = Pack<uint16_t, kVector>;
  const int64_t row = blockIdx.x;
  const int stride = static_cast<int>(blockDim.x) * kVector;
  const int begin = static_cast<int>(blockIdx.y) * stride * kChunks + static_cast<int>(threadIdx.x) * kVector;
  const int64_t index = indices[row];
  if (index < 0) return;
  from += index * width, to += row * width;
  Chunk chunks[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int i = begin + c * stride;
    if (i < width) chunks[c] = *reinterpret_cast<const Chunk*>(from + i);
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int i = begin + c * stride;
    if (i < width) *reinterpret_cast<Chunk*>(to + i) = chunks[c];
  }
}

// ---- RMSNorm --------------------------------------------------------------------------------------------------------

// A row's 256 lanes are spread over the threads of a block, kVector neighbours each.
template <int kVector>
struct RowLanes {
  using Chunk = Pack<float, kVector>;
  static constexpr int kThreads = kLanes / kVector;
  static constexpr int kHeld = 16;  // steps that are under way at once: 4,096 elements

  __device__ static Chunk load(const float* x, int n, int i) {
    return i < n ? *reinterpret_cast<const Chunk*>(x + i) : Chunk{};
  }
  // Past the end a lane adds 0 * 0, which changes nothing: a lane is never -0.
  __device__ static void add(float (&lanes)[kVector], const Chunk& chunk) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) lanes[i] = numerics::fma_f32(chunk.x[i], chunk.x[i], lanes[i]);
  }
  // The tree over all threads' lanes.
  __device__ static float join(const float (&lanes)[kVector]) {
    __shared__ alignas(16) float warps[kThreads / 32];
    const float sum = tree_of_threads<32>(tree_of_values(lanes));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    float all[kThreads / 32];
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) all[i] = warps[i];
    return tree_of_values(all);
  }
  // False where an element is NaN.
  __device__ static bool write(const Chunk& chunk, const Chunk& weight, float factor, int n, int i, uint16_t* y) {
    float scaled[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) scaled[j] = numerics::rms_scale(chunk.x[j], factor, weight.x[j]);
    bool good = true;
    const auto operands = operands_of(scaled, good);
    if (i < n) *reinterpret_cast<Operands<kVector>*>(y + i) = operands;
    return good || i >= n;
  }
};

// Many rows: two warps a row, which is read once. The last row first: what the kernel before wrote last is still in the
// cache, and what the next one reads first will be. kWhole: a row is exactly what a thread holds.
template <int kVector, bool kWhole>
__global__ void __launch_bounds__(RowLanes<kVector>::kThreads)
    rms_norm_kernel(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y, bool* bad) {
  using Lanes = RowLanes<kVector>;
  using Chunk = typename Lanes::Chunk;
  constexpr int kTogether = 4;  // weights that are under way at once: loads do not pass stores
  launch_dependents();
  wait_for_prerequisites();
  if (kWhole) n = n_padded = Lanes::kHeld * kLanes;
  const int64_t row = gridDim.x - 1 - blockIdx.x;
  x += row * n, y += row * n_padded;
  const int first = static_cast<int>(threadIdx.x) % Lanes::kThreads * kVector;  // the compiler sees its bound
  Chunk held[Lanes::kHeld];
  float lanes[kVector] = {};
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) held[s] = Lanes::load(x, n, first + s * kLanes);
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) Lanes::add(lanes, held[s]);
#pragma unroll 8
  for (int i = first + Lanes::kHeld * kLanes; i < n; i += kLanes) Lanes::add(lanes, Lanes::load(x, n, i));
  const float factor = numerics::rms_factor(Lanes::join(lanes), n, eps);

  bool good = true;
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; s += kTogether) {
    Chunk weights[kTogether];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) weights[t] = Lanes::load(weight, n, first + (s + t) * kLanes);
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      good &= Lanes::write(held[s + t], weights[t], factor, n, first + (s + t) * kLanes, y);
    }
  }
  if (!kWhole) {
#pragma unroll 4
    for (int i = first + Lanes::kHeld * kLanes; i < n; i += kLanes) {
      good &= Lanes::write(Lanes::load(x, n, i), Lanes::load(weight, n, i), factor, n, i, y);
    }
    for (int i = n + static_cast<int>(threadIdx.x); i < n_padded; i += Lanes::kThreads) y[i] = 0;
  }
  if (!good) bad[row] = true;
}

// Few rows, where latency is all: gridDim.y blocks a row, each of which sums the whole of it and writes its own kOwn
// steps of 256 elements. Weights never change, so that they need not wait for the kernel before.
template <int kOwn>
__global__ void __launch_bounds__(kLanes)
    few_rms_norm_kernel(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y, bool* bad) {
  using Lanes = RowLanes<1>;
  using Chunk = Lanes::Chunk;
  launch_dependents();
  const int64_t row = blockIdx.x;
  x += row * n, y += row * n_padded;
  const int first = threadIdx.x, own = static_cast<int>(blockIdx.y) * kOwn * kLanes + first;
  Chunk weights[kOwn], mine[kOwn], held[Lanes::kHeld];
#pragma unroll
  for (int s = 0; s < kOwn; ++s) weights[s] = Lanes::load(weight, n, own + s * kLanes);
  wait_for_prerequisites();
  float lanes[1] = {};
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) held[s] = Lanes::load(x, n, first + s * kLanes);
#pragma unroll
  for (int s = 0; s < kOwn; ++s) mine[s] = Lanes::load(x, n, own + s * kLanes);
#pragma unroll
  for (int s = 0; s < Lanes::kHeld; ++s) Lanes::add(lanes, held[s]);
#pragma unroll 8
  for (int i = first + Lanes::kHeld * kLanes; i < n; i += kLanes) Lanes::add(lanes, Lanes::load(x, n, i));
  const float factor = numerics::rms_factor(Lanes::join(lanes), n, eps);

  bool good = true;
#pragma unroll
  for (int s = 0; s < kOwn; ++s) {
    const int i = own + s * kLanes;
    good &= Lanes::write(mine[s], weights[s], factor, n, i, y);
    if (i >= n && i < n_padded) y[i] = 0;
  }
  if (!good) bad[row] = true;
}

template <int kOwn>
void launch_few_rms_norm(cudaStream_t stream, const float* x, const float* weight, int rows, int n, int n_padded,
                         float eps, uint16_t* y, bool* bad) {
  const int parts = (n_padded + kOwn * kLanes - 1) / (kOwn * kLanes);
  launch(few_rms_norm_kernel<kOwn>, dim3(rows, parts), kLanes, 0, stream, x, weight, n, n_padded, eps, y, bad);
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

int blocks_of(int n, int each) { return (n + each - 1) / each; }

constexpr int kManyRows = 264;  // enough for two blocks of threads on every processor

}  // namespace

void embed(cudaStream_t stream, const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
           float* h) {
  constexpr int kThreads = 256;
  const auto go = [&](auto kernel, int each) {
    launch(kernel, dim3(rows, blocks_of(n, each * kThreads)), kThreads, 0, stream, table, tokens, drawn, n, h);
  };
  if (!aligned16(table, n, 2) || !aligned16(h, n, 4)) {
    go(embed_kernel<1, 1, true>, 1);
  } else if (rows < kManyRows) {
    go(embed_kernel<4, 1, true>, 4);
  } else {
    go(embed_kernel<4, 4, false>, 16);
  }
}

void rms_norm(cudaStream_t stream, const float* x, const float* weight, int rows, int n, int n_padded, float eps,
              uint16_t* y, bool* bad) {
  if (rows >= kManyRows && aligned16(x, n, 4) && aligned16(weight, n, 4) && aligned16(y, n_padded, 2)) {
    const bool whole = n == RowLanes<4>::kHeld * kLanes && n_padded == n;
    launch(whole ? rms_norm_kernel<4, true> : rms_norm_kernel<4, false>, rows, RowLanes<4>::kThreads, 0, stream, x,
           weight, n, n_padded, eps, y, bad);
  } else if (rows <= 16) {
    launch_few_rms_norm<2>(stream, x, weight, rows, n, n_padded, eps, y, bad);
  } else if (rows <= 32) {
    launch_few_rms_norm<4>(stream, x, weight, rows, n, n_padded, eps, y, bad);
  } else {
    launch_few_rms_norm<8>(stream, x, weight, rows, n, n_padded, eps, y, bad);
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
  const auto go = [&](auto kernel, int each) {
    launch(kernel, dim3(count, blocks_of(width, each * kThreads)), kThreads, 0, stream, from, indices, width, to);
  };
  if (!aligned16(from, width, 2) || !aligned16(to, width, 2)) {
    go(gather_kernel<1, 1, true>, 1);
  } else if (count < kManyRows) {
    go(gather_kernel<8, 1, true>, 8);
  } else {
    go(gather_kernel<8, 4, false>, 32);
  }
}

}  // namespace eadem::kernels::cuda
