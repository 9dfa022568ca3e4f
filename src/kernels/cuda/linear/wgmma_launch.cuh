// The launch of one instantiation of the kernel.
#pragma once

#include "core/check.h"
#include "kernels/cuda/launch_config.h"
#include "kernels/cuda/linear/wgmma_kernel.cuh"

namespace eadem::kernels::cuda {

template <class T>
void launch_wgmma(cudaStream_t stream, const WgmmaLaunch& launch) {
  EADEM_CHECK(cudaFuncSetAttribute(wgmma_linear<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes) ==
              cudaSuccess);
  const LaunchConfig config(dim3(static_cast<unsigned>(launch.blocks)), T::kThreads, T::kSharedBytes, stream,
                            T::kSplit > 1 ? 2 : 1);
  EADEM_CHECK(cudaLaunchKernelEx(config.get(), wgmma_linear<T>, launch.x, launch.x_tail, launch.y, launch.args) ==
              cudaSuccess);
}

}  // namespace eadem::kernels::cuda
