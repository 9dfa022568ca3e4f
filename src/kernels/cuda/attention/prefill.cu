#include "kernels/cuda/attention/prefill.cuh"

#include "core/check.h"

namespace eadem::kernels::cuda {
namespace {

using Heads64 = PrefillLayout<1, 3, 4, 4, true>;
using Heads128 = PrefillLayout<2, 3, 2, 3, true>;
using Heads256 = PrefillLayout<4, 2, 2, 2, false>;

template <class T>
void launch(cudaStream_t stream, const PrefillArgs& args, int blocks) {
  EADEM_CHECK(cudaFuncSetAttribute(prefill_attention<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   T::kSharedBytes) == cudaSuccess);
  EADEM_CHECK(cudaMemsetAsync(args.next_tile, 0, sizeof(int), stream) == cudaSuccess);
  prefill_attention<T><<<static_cast<unsigned>(blocks), T::kThreads, T::kSharedBytes, stream>>>(args);
  EADEM_CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace

PrefillKernel prefill_kernel(int head) {
  switch (head) {
    case 64: return launch<Heads64>;
    case 128: return launch<Heads128>;
    case 256: return launch<Heads256>;
    default: return nullptr;
  }
}

int prefill_rows(int head) { return head == 256 ? 64 * Heads256::kGroups : 64 * Heads128::kGroups; }

}  // namespace eadem::kernels::cuda
