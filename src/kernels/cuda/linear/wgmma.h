// mma16 for many rows: linear layers by the warpgroup instructions of sm_90, over the packed tiles of layout.h.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/linear/wgmma_plan.h"
#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

// Whether the kernels take the call: mma16, n and y_stride even, y and bias 8-byte aligned (y_stride a multiple of 4
// and y 16-byte aligned are faster), x.operands and weights 16-byte aligned. Any k_padded, shards, bias, add_to_y.
bool linear_wgmma_serves(const LinearCall& call);

// Evaluates a call that it serves for rows 0 ... rows - 1, any number >= 1. processors: of the device; with the shape
// and `rows` it decides the tile, which no bit depends on. Weights are read before the kernel waits for what runs
// before it in the stream (programmatic dependent launch): nothing in the stream may write them.
void linear_wgmma(cudaStream_t stream, const LinearCall& call, int rows, int processors);
// The same with a tile of the caller's choice (for tests and measurements).
void linear_wgmma(cudaStream_t stream, const LinearCall& call, int rows, int processors, const WgmmaPlan& plan);

// Whether these kernels are the faster ones for so many rows. Up to 64 there are tiles for many layers; but up to 16,
// where a layer has more tiles than the device processors, the kernels for few rows are as fast.
bool linear_wgmma_suits(const LinearShape& shape, int rows, int processors);

// Whether a layer of n / 2 gates and then n / 2 ups, without bias, is evaluated with SwiGLU inside for so many rows.
bool linear_wgmma_gates(const LinearShape& shape, int rows, int processors);
// Such a layer: n a multiple of 256, x.operands, weights and swiglu.y 16-byte aligned, swiglu.y_stride a multiple of 8.
// Any rows >= 1; call.y is not used.
void linear_wgmma_gated(cudaStream_t stream, const LinearCall& call, const SwigluCall& swiglu, int rows,
                        int processors);

}  // namespace eadem::kernels::cuda
