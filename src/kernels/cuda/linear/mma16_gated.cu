// Few rows of a layer of gates and ups that gives the operands of SwiGLU: the frame and the chains of stream.cuh. Half
// of the consumers evaluate gates, the others their ups; a pair of threads holds gates and their ups in the same
// registers, and each finishes half of them.
#include "kernels/cuda/linear/consumer.cuh"
#include "kernels/cuda/linear/stream.h"
#include "kernels/cuda/linear/warpgroups.cuh"
#include "kernels/cuda/linear/warps.cuh"
#include "kernels/cuda/operand.cuh"
#include "numerics/layer.h"

namespace eadem::kernels::cuda {
namespace {

// exchange: of this thread and its partner, `pairs` floats from one of their registers to the next.
template <int kRows>
EADEM_DEVICE void finish_gated(const StreamArgs& a, const Consumer& c, const Item& item, bool is_up, float* exchange,
                               int pairs, const float (&sum)[kRows / 2]) {
  constexpr int kHalf = kRows / 4;  // a gate's thread finishes the first half, its partner the second
  const int gates = a.item_outputs / 2;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) exchange[(is_up ? i : kHalf + i) * pairs] = is_up ? sum[i] : sum[kHalf + i];
  named_barrier(1, 2 * pairs);
  float y[kHalf];  // of rows past the last too: sums of zeros
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float own = is_up ? sum[kHalf + i] : sum[i], other = exchange[(is_up ? kHalf + i : i) * pairs];
    y[i] = numerics::swiglu(is_up ? other : own, is_up ? own : other);
  }
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const int k = is_up ? kHalf + i : i, row = item.row + row_of(c, k);
    const int output = output_of(c, k) - (is_up ? gates : 0), n = item.n + output;
    if (row >= a.rows || output >= gates || n >= item.n_end) continue;
    a.operands[row * a.operands_stride + n] = static_cast<uint16_t>(operand_pair(y[i], 0.0f));
    if (numerics::is_nan(y[i])) a.bad[row] = true;
  }
  named_barrier(1, 2 * pairs);
}

template <int kRows, class Chains>
__global__ void __launch_bounds__(kMaxThreads) gated_kernel(const __grid_constant__ StreamArgs a) {
  extern __shared__ __align__(1024) std::byte dynamic[];
  __shared__ uint64_t barriers[2 * kMaxStages];
  const int consumers = static_cast<int>(blockDim.x) - 32, thread = static_cast<int>(threadIdx.x);
  const Ring ring = make_ring(a, barriers, (shared_address(dynamic) + 1023) & ~1023u, consumers / 32);
  if (thread == 0) barrier_init_fence();
  launch_dependents();
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x);
  if (thread >= consumers) {
    produce(a, ring, 0, first, step, true, true);
    return;
  }
  const int group = thread / 32 / Chains::kWarps, warp = thread / 32 % Chains::kWarps;
  const int output = group * a.outputs;
  Consumer c{ring, {}, 0, thread, output, output + warp * 16, 0, 0};
  const int pairs = consumers / 2;
  const bool is_up = thread >= pairs;
  auto* const exchange = reinterpret_cast<float*>(dynamic + (ring.base - shared_address(dynamic)) + a.exchange_offset) +
                         (is_up ? thread - pairs : thread);
  bool waited = false;
  for (int index = first; index < a.items; index += step) {
    float sum[kRows / 2];
    Chains::run(a, c, sum);
    if (!waited) wait_for_prerequisites(), waited = true;
    finish_gated<kRows>(a, c, item_at(a, index), is_up, exchange, pairs, sum);
  }
}

template <int kRows>
const void* gated_kernel_of(bool warps) {
  return warps ? reinterpret_cast<const void*>(gated_kernel<kRows, WarpMma16<kRows>>)
               : reinterpret_cast<const void*>(gated_kernel<kRows, WarpgroupMma16<kRows>>);
}

}  // namespace

const void* mma16_gated_kernel(int block_rows, bool warps) {
  switch (block_rows) {
    case 8: return gated_kernel_of<8>(warps);
    case 16: return gated_kernel_of<16>(warps);
    case 32: return gated_kernel_of<32>(warps);
    default: return gated_kernel_of<64>(warps);
  }
}

}  // namespace eadem::kernels::cuda
