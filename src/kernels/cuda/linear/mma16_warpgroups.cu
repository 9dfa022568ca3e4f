#include "kernels/cuda/linear/stream.h"
#include "kernels/cuda/linear/warpgroups.cuh"

namespace eadem::kernels::cuda {
namespace {

template <int kRows, int kLevels>
__global__ void __launch_bounds__(kMaxThreads) mma16_warpgroups(const __grid_constant__ StreamArgs a) {
  stream_linear<kRows, kLevels, WarpgroupMma16<kRows>>(a);
}

template <int kRows>
const void* kernel(bool tree) {
  return tree ? reinterpret_cast<const void*>(mma16_warpgroups<kRows, tree_levels(kRows)>)
              : reinterpret_cast<const void*>(mma16_warpgroups<kRows, 0>);
}

}  // namespace

const void* mma16_warpgroups_kernel(int block_rows, bool tree) {
  switch (block_rows) {
    case 8: return kernel<8>(tree);
    case 16: return kernel<16>(tree);
    case 32: return kernel<32>(tree);
    default: return kernel<64>(tree);
  }
}

}  // namespace eadem::kernels::cuda
