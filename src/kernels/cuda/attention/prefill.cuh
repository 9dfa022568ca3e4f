// Attention of many rows of a sequence on sm_90, the tree of numerics/attention.h. A tile is a few times 64 query rows
// of one head: a producer thread brings Q, and block after block of K and V (whole images, as they lie in the pool),
// and each warpgroup takes 64 rows through all of them. While one block's weights are computed the products of the one
// before (P V) and of the next (Q K) are under way. A thread holds the scores of two rows, `line` and `line + 8` of its
// warp's sixteen, at the columns 8 j + 2 quad + {0, 1} of a block: four lanes have a row, each with one of the four
// sums l. docs/cuda-prefill.md tells what each choice is worth.
#pragma once

#include "core/check.h"
#include "kernels/cuda/attention/prefill_consumer.cuh"
#include "kernels/cuda/attention/prefill_producer.cuh"

namespace eadem::kernels::cuda {

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) prefill_attention(const __grid_constant__ PrefillArgs a) {
  extern __shared__ __align__(1024) char shared[];
  if (shared_address(shared) != T::kQ) __trap();
  if (threadIdx.x == 0) {
    constexpr int kFreeQ = group_arrivals(4, 32), kFreeStage = T::kGroups * kFreeQ;
    for (int i = 0; i < T::kGroups; ++i) barrier_init(T::kQFull + 8 * i, 1), barrier_init(T::kQEmpty + 8 * i, kFreeQ);
    for (int i = 0; i < T::kKeys; ++i) {
      barrier_init(T::kKFull + 8 * i, 1), barrier_init(T::kKEmpty + 8 * i, kFreeStage);
    }
    for (int i = 0; i < T::kValues; ++i) {
      barrier_init(T::kVFull + 8 * i, 1), barrier_init(T::kVEmpty + 8 * i, kFreeStage);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (group == 0) {
    if constexpr (T::kGroups == 3) {
      registers_give<32>();
    } else {
      registers_give<40>();
    }
    if (threadIdx.x == 0) {
      PrefillProducer<T> producer{a};
      producer.run();
    }
  } else {
    if constexpr (T::kGroups == 3) {
      registers_take<160>();
    } else {
      registers_take<232>();
    }
    PrefillConsumer<T> consumer(a, group - 1);
    consumer.run();
  }
}

template <class T>
void launch_prefill(cudaStream_t stream, const PrefillArgs& args, int blocks) {
  EADEM_CHECK(cudaFuncSetAttribute(prefill_attention<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   T::kSharedBytes) == cudaSuccess);
  EADEM_CHECK(cudaMemsetAsync(args.next_tile, 0, sizeof(int), stream) == cudaSuccess);
  prefill_attention<T><<<static_cast<unsigned>(blocks), T::kThreads, T::kSharedBytes, stream>>>(args);
  EADEM_CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace eadem::kernels::cuda
