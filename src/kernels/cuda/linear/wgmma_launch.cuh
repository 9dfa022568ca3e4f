// The launch of one instantiation of the kernel.
#pragma once

#include "core/check.h"
#include "kernels/cuda/linear/wgmma_kernel.cuh"

namespace eadem::kernels::cuda {

template <class T>
void launch_wgmma(cudaStream_t stream, const WgmmaLaunch& launch) {
  EADEM_CHECK(cudaFuncSetAttribute(wgmma_linear<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes) ==
              cudaSuccess);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  config.blockDim = dim3(kWgmmaThreads);
  config.dynamicSmemBytes = T::kSharedBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = T::kSplit > 1 ? 2 : 1;
  EADEM_CHECK(cudaLaunchKernelEx(&config, wgmma_linear<T>, launch.x, launch.x_tail, launch.y, launch.args) ==
              cudaSuccess);
}

}  // namespace eadem::kernels::cuda
