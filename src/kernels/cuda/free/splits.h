// Launching attention by units whose splits free order chooses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace eadem::kernels::cuda {

struct SplitWork;

// blocks: most blocks of threads that could find a unit. work.shape.numerics does not matter: the tree of a block is
// mma16's.
void launch_free_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks);

}  // namespace eadem::kernels::cuda
