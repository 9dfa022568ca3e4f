// Linear layers of fma32 on CUDA cores.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/linear/plan.h"
#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

// Outputs go through a CTA in groups; it carries the sums of a batch of them, at most, from one block of k to the next.
inline constexpr int kFma32Group = 8, kFma32Batch = 4;

struct Fma32Args {
  CUtensorMap boxes;  // eight rows: the weights as [row of tiles][tile of k][16 KB], a group x eight tiles at a time
  LinearShape shape;
  const std::byte* weights = nullptr;
  const uint16_t* x = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int rows = 0;
  int shard_k = 0, shard_tiles = 0, k_tiles = 0;  // layout.h's, of the shape
  int groups = 0;                                 // of outputs
  int row_blocks = 0;                             // ceil(rows / rows of a block)
  int batch = 1;                                  // groups of a batch
  bool add_to_y = false;
};

// Evaluates the call under a plan that is legal for its shape.
void linear_fma32(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors);

}  // namespace eadem::kernels::cuda
