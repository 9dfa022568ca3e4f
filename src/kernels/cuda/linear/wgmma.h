// mma16 for many rows: linear layers by the warpgroup instructions of sm_90, over the packed tiles of layout.h.
#pragma once

#include <cuda_runtime.h>

#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

// Evaluates the call for rows 0 ... rows - 1 (any number >= 1; below 64 the decode kernels are faster): any n, k_padded
// (a multiple of 32), shards 1, 2, 4, 8, bias, add_to_y. x.operands: 16-byte aligned. processors: of the device; with
// the shape and `rows` it decides the tile, which no bit depends on. The weights are read before the kernel waits for
// what runs before it in the stream (programmatic dependent launch): nothing in the stream may write them.
void linear_wgmma(cudaStream_t stream, const LinearCall& call, int rows, int processors);

}  // namespace eadem::kernels::cuda
