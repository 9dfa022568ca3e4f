// The kernels of stream.cuh, by rows of a warp.
#pragma once

#include "kernels/cuda/linear/consumer.cuh"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::cuda {
namespace {

template <int kRows, int kLevels, class Chains>
__global__ void __maxnreg__(Chains::registers(kLevels)) stream_kernel(const __grid_constant__ StreamArgs a) {
  stream_linear<kRows, kLevels, Chains>(a);
}

template <int kRows, class Chains>
const void* stream_kernel_of(int levels) {
  if (levels == 0) return reinterpret_cast<const void*>(stream_kernel<kRows, 0, Chains>);
  if (levels == 1) return reinterpret_cast<const void*>(stream_kernel<kRows, 1, Chains>);
  return reinterpret_cast<const void*>(stream_kernel<kRows, tree_levels(kRows), Chains>);
}

// Chains<rows>: how a consumer evaluates a shard for so many rows, from kLeast to kMost. levels: stream.h.
template <template <int> class Chains, int kLeast, int kMost>
const void* stream_kernel_of(int rows, int levels) {
  if constexpr (kLeast < kMost) {
    if (rows > kLeast) return stream_kernel_of<Chains, 2 * kLeast, kMost>(rows, levels);
  }
  return stream_kernel_of<kLeast, Chains<kLeast>>(levels);
}

}  // namespace
}  // namespace eadem::kernels::cuda
