// The launches of attention by units of one split, each tree in a translation unit of its own.
#pragma once

#include <cuda_runtime.h>

namespace eadem::kernels::cuda {

struct SplitWork;

// blocks: most blocks of threads that could find a unit.
void launch_mma16_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks);
void launch_fma32_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks);

}  // namespace eadem::kernels::cuda
