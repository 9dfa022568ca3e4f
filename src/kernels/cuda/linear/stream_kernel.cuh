// The kernels of stream.cuh, by rows of a block.
#pragma once

#include "kernels/cuda/linear/consumer.cuh"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::cuda {
namespace {

template <int kRows, int kLevels, class Chains>
__global__ void __launch_bounds__(kMaxThreads) stream_kernel(const __grid_constant__ StreamArgs a) {
  stream_linear<kRows, kLevels, Chains>(a);
}

template <int kRows, class Chains>
const void* stream_kernel_of(bool tree) {
  return tree ? reinterpret_cast<const void*>(stream_kernel<kRows, tree_levels(kRows), Chains>)
              : reinterpret_cast<const void*>(stream_kernel<kRows, 0, Chains>);
}

// Chains<rows>: how a consumer evaluates a shard. tree: more than one shard.
template <template <int> class Chains>
const void* stream_kernel_of(int block_rows, bool tree) {
  switch (block_rows) {
    case 8: return stream_kernel_of<8, Chains<8>>(tree);
    case 16: return stream_kernel_of<16, Chains<16>>(tree);
    case 32: return stream_kernel_of<32, Chains<32>>(tree);
    default: return stream_kernel_of<64, Chains<64>>(tree);
  }
}

}  // namespace
}  // namespace eadem::kernels::cuda
