#include "kernels/cuda/linear/stream.h"
#include "kernels/cuda/linear/warps.cuh"

namespace eadem::kernels::cuda {
namespace {

template <int kRows, int kLevels, int kGroups>
__global__ void __launch_bounds__(kMaxThreads) int8_warps(const __grid_constant__ StreamArgs a) {
  stream_linear<kRows, kLevels, WarpInt8<kRows, kGroups>>(a);
}

template <int kRows, int kLevels>
const void* kernel(int group) {
  return group == 128 ? reinterpret_cast<const void*>(int8_warps<kRows, kLevels, 1>)
                      : reinterpret_cast<const void*>(int8_warps<kRows, kLevels, 4>);
}

template <int kRows>
const void* kernel(int group, bool tree) {
  return tree ? kernel<kRows, tree_levels(kRows)>(group) : kernel<kRows, 0>(group);
}

}  // namespace

const void* int8_warps_kernel(int group, int block_rows, bool tree) {
  switch (block_rows) {
    case 8: return kernel<8>(group, tree);
    case 16: return kernel<16>(group, tree);
    case 32: return kernel<32>(group, tree);
    default: return kernel<64>(group, tree);
  }
}

}  // namespace eadem::kernels::cuda
