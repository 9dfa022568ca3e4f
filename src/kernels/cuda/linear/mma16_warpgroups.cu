#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warpgroups.cuh"

namespace eadem::kernels::cuda {

const void* mma16_warpgroups_kernel(int rows, int levels) {
  return stream_kernel_of<WarpgroupMma16, 8, 64>(rows, levels);
}

}  // namespace eadem::kernels::cuda
