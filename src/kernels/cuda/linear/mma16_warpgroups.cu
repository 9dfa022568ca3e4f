#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warpgroups.cuh"

namespace eadem::kernels::cuda {

const void* mma16_warpgroups_kernel(int block_rows, bool tree) {
  return stream_kernel_of<WarpgroupMma16>(block_rows, tree);
}

}  // namespace eadem::kernels::cuda
