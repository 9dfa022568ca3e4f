#include "kernels/cuda/attention/split_launch.h"

#include <algorithm>

#include "kernels/cuda/attention/mma16_rows.cuh"
#include "kernels/cuda/launch.cuh"

namespace eadem::kernels::cuda {
namespace {

// KV blocks in flight: as many as let two blocks of threads share a processor, where their images allow it.
template <int kTiles>
constexpr int kStages = kTiles == 1 ? 6 : 3;
template <int kTiles>
constexpr int kResident = kTiles <= 2 ? 2 : 1;

template <int kTiles>
__global__ void __launch_bounds__(kSplitThreads, kResident<kTiles>)
    mma16_splits_kernel(const __grid_constant__ SplitWork work) {
  run_units<Mma16Rows<kTiles>, kTiles, kStages<kTiles>>(work);
}

template <int kTiles>
void launch(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  constexpr int kMemory = kStages<kTiles> * 2 * kTiles * kKvTileBytes;
  allow_memory<mma16_splits_kernel<kTiles>>(kMemory);
  const int64_t grid = std::min<int64_t>(blocks, int64_t{kResident<kTiles>} * processors);
  cuda::launch(mma16_splits_kernel<kTiles>, dim3(static_cast<unsigned>(grid)), kSplitThreads, kMemory, stream, work);
}

}  // namespace

void launch_mma16_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  switch (kv_tiles(work.shape.head_padded)) {
    case 1: return launch<1>(stream, processors, work, blocks);
    case 2: return launch<2>(stream, processors, work, blocks);
    case 3: return launch<3>(stream, processors, work, blocks);
    default: return launch<4>(stream, processors, work, blocks);
  }
}

}  // namespace eadem::kernels::cuda
