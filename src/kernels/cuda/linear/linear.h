// Linear layers of a batch on a CUDA device, under all three numerics and for any number of rows.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/plan.h"
#include "kernels/device.h"

namespace eadem::kernels::cuda {

// Working memory for any call of at most `max_rows` rows; 0 where none is needed.
size_t linear_scratch_bytes(const LinearShape& shape, int max_rows);

// Rows 0 ... rows - 1 of the call; of call.x only `operands` is read (int8 quantises it into scratch). call.weights:
// packed as layout.h says. Both lie at multiples of 128 bytes (weights) and 16 (operands). Which kernel runs, and how
// it is cut, follows from shape, rows and facts.processors; nothing of it can reach the bits. scratch: 256-byte
// aligned, whatever it holds. May be captured in a graph.
void linear(cudaStream_t stream, const DeviceFacts& facts, const LinearCall& call, int rows, void* scratch);

// Whether a layer of n / 2 gates and then n / 2 ups, without bias, gives the operands of SwiGLU for so many rows in one
// go, and such a call: call.y is not used. swiglu.y: 16-byte aligned, its stride a multiple of 8.
bool fuses_swiglu(const DeviceFacts& facts, const LinearShape& shape, int rows);
void linear_swiglu(cudaStream_t stream, const DeviceFacts& facts, const LinearCall& call, const SwigluCall& swiglu,
                   int rows);

// The same as linear under a given plan (tests, benchmarks), which must be legal for the shape.
void linear_planned(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors,
                    void* scratch);

}  // namespace eadem::kernels::cuda
