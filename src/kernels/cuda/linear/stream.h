// Launching the kernels that stream weights past a few rows (stream.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/linear/plan.h"
#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

// int8 activations, as quantise writes them and the kernels read them.
struct QuantisedRows {
  int8_t* q = nullptr;    // [rows][k_padded]
  float* side = nullptr;  // [row block][tile of k][scale, sum if minimum][group of the tile][row of the block]
};

// Of the scratch of a call: q, then side. Bytes, and where each begins.
size_t quantised_bytes(const LinearShape& shape, int rows, int block_rows);
QuantisedRows quantised_rows(const LinearShape& shape, int rows, void* scratch);

// operands: [rows][k_padded], numerics/int8.h.
void quantise(cudaStream_t stream, const LinearShape& shape, const uint16_t* operands, int rows, int block_rows,
              const QuantisedRows& out);

// Stages of the ring: below 2 the plan does not fit a processor's shared memory.
int linear_stages(const LinearShape& shape, const LinearPlan& plan);

// Evaluates the call under a plan that is legal for its shape.
void linear_stream(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors,
                   const QuantisedRows& quantised);

// The operands of SwiGLU of a layer of n / 2 gates and then n / 2 ups, without bias, under mma16, for up to 64 rows;
// whether it can be; and the plan, whose item has as many gates as ups.
bool linear_stream_gates(const LinearShape& shape);
LinearPlan plan_gated(const LinearShape& shape, int rows, int processors);
void linear_stream_gated(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, const SwigluCall& swiglu,
                         int rows, int processors);

// Threads of a CTA that compute, threads that compute or quantise, warps that copy, and the registers of each.
int linear_threads(const LinearPlan& plan);
int linear_workers(const LinearShape& shape, const LinearPlan& plan);
int linear_producers(const LinearShape& shape, const LinearPlan& plan);
int linear_registers(const LinearShape& shape, const LinearPlan& plan);

// A quarter of a processor, 16,384 registers, holds every fourth warp: 168 registers a thread for three of them, 128
// for four, 96 for five. So two CTAs of up to six, eight or ten warps come up on a processor. rows: of a warp or of a
// warpgroup; levels: of the shard tree, that a CTA adds by itself, whose pending sums take registers; 0: one shard.
constexpr int kMostRegisters = 168;
constexpr int int8_registers(bool warps, int group, int rows, int levels) {
  if (group != 128 || (!warps && levels > 0)) return kMostRegisters;
  return !warps || (rows == 32 && levels > 0) ? 128 : 96;
}

// Levels of the shard tree that a CTA can add by itself: registers for pending sums run out. rows: of a warp.
constexpr int tree_levels(int rows) { return rows == 64 ? 1 : 2; }
inline constexpr int kMaxThreads = 2 * 128 + 32;  // of gated layers

// The kernels, by rows of a warp and levels as above.
const void* mma16_warps_kernel(int rows, int levels);
const void* mma16_warpgroups_kernel(int rows, int levels);
const void* mma16_gated_kernel(int block_rows, bool warps);
const void* int8_own_rows_kernel(int rows, int levels);  // groups of 128, no minimum
const void* int8_warps_kernel(int group, bool minimum, int rows, int levels);
const void* int8_warpgroups_kernel(int group, bool minimum, int rows, int levels);

}  // namespace eadem::kernels::cuda
