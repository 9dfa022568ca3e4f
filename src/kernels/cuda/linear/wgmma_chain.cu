#include "kernels/cuda/linear/wgmma_launch.cuh"

namespace eadem::kernels::cuda {

WgmmaKernel wgmma_chain_kernel(int rows, int columns) {
  if (rows == 64) {
    switch (columns) {
      case 48: return launch_wgmma<WgmmaTile<48, 14, 1, 1, 1>>;
      case 64: return launch_wgmma<WgmmaTile<64, 12, 1, 1, 1>>;
      case 96: return launch_wgmma<WgmmaTile<96, 10, 1, 1, 1>>;
      case 128: return launch_wgmma<WgmmaTile<128, 8, 1, 1, 1>>;
      case 192: return launch_wgmma<WgmmaTile<192, 6, 1, 1, 1>>;
      default: return nullptr;
    }
  }
  switch (columns) {
    case 48: return launch_wgmma<WgmmaTile<48, 9, 1, 1>>;
    case 64: return launch_wgmma<WgmmaTile<64, 8, 1, 1>>;
    case 96: return launch_wgmma<WgmmaTile<96, 6, 1, 1>>;
    case 128: return launch_wgmma<WgmmaTile<128, 6, 1, 1>>;
    case 192: return launch_wgmma<WgmmaTile<192, 4, 1, 1>>;
    case 256: return launch_wgmma<WgmmaTile<256, 4, 1, 1>>;
    default: return nullptr;
  }
}

}  // namespace eadem::kernels::cuda
