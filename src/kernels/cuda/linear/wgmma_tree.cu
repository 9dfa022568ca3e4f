#include "kernels/cuda/linear/wgmma_launch.cuh"

namespace eadem::kernels::cuda {

WgmmaKernel wgmma_tree_kernel(int rows, int columns, int shards, bool split) {
  if (rows == 64) {
    return split && shards == 8 && columns == 64 ? launch_wgmma<WgmmaTile<64, 12, 4, 2, 1>> : nullptr;
  }
  if (split) {
    if (shards != 8) return nullptr;
    if (columns == 64) return launch_wgmma<WgmmaTile<64, 8, 4, 2>>;
    if (columns == 128) return launch_wgmma<WgmmaTile<128, 6, 4, 2>>;
    return nullptr;
  }
  if (columns != 128) return nullptr;
  if (shards == 2) return launch_wgmma<WgmmaTile<128, 5, 2, 1>>;
  if (shards == 4) return launch_wgmma<WgmmaTile<128, 5, 4, 1>>;
  if (shards == 8) return launch_wgmma<WgmmaTile<128, 5, 8, 1>>;
  return nullptr;
}

}  // namespace eadem::kernels::cuda
