#include "kernels/cuda/attention/fma32_rows.cuh"
#include "kernels/cuda/attention/split_launch.h"

namespace eadem::kernels::cuda {
namespace {

template <int kTiles>
__global__ void __launch_bounds__(kSplitThreads, Fma32Rows<kTiles>::kResident)
    fma32_splits_kernel(const __grid_constant__ SplitWork work) {
  run_units<Fma32Rows<kTiles>, ContractCut, kTiles>(work);
}

template <int kTiles>
void launch(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  launch_units<fma32_splits_kernel<kTiles>, Fma32Rows<kTiles>, kTiles>(stream, processors, work, blocks);
}

}  // namespace

void launch_fma32_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  switch (kv_tiles(work.shape.head_padded)) {
    case 1: return launch<1>(stream, processors, work, blocks);
    case 2: return launch<2>(stream, processors, work, blocks);
    case 3: return launch<3>(stream, processors, work, blocks);
    default: return launch<4>(stream, processors, work, blocks);
  }
}

}  // namespace eadem::kernels::cuda
