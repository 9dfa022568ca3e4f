#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warps.cuh"

namespace eadem::kernels::cuda {

const void* mma16_warps_kernel(int block_rows, bool tree) { return stream_kernel_of<WarpMma16>(block_rows, tree); }

}  // namespace eadem::kernels::cuda
