#include "kernels/cuda/linear/wgmma_launch.cuh"

namespace eadem::kernels::cuda {

WgmmaKernel wgmma_gated_kernel() { return launch_wgmma<WgmmaTile<kWgmmaGatedColumns, 4, 1, 1, 2, true>>; }

}  // namespace eadem::kernels::cuda
