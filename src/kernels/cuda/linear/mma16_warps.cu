#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warps.cuh"

namespace eadem::kernels::cuda {

const void* mma16_warps_kernel(int rows, int levels) { return stream_kernel_of<WarpMma16, 8, 64>(rows, levels); }

}  // namespace eadem::kernels::cuda
