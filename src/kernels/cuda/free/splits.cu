#include "kernels/cuda/free/splits.h"

#include "kernels/cuda/attention/mma16_rows.cuh"
#include "kernels/cuda/free/split_plan.h"

namespace eadem::kernels::cuda {
namespace {

struct FreeUnitList : UnitList {
  int split_blocks;
};

// Splits of as many blocks as the plan says for all tiles of the launch together. Every block of threads makes the plan
// for itself, from positions in device memory: so a recorded step has the plan of the moment.
struct FreeCut {
  using List = FreeUnitList;
  static constexpr int kMostBlocks = 1 << 30;  // of a unit: where nothing is split, all of a context

  // The KV blocks that the tile sees.
  static __device__ __forceinline__ int measure(const SplitWork& work, int64_t position, int rows) {
    const int64_t first = numerics::first_visible(position, work.shape.window) / numerics::kKvBlock;
    return static_cast<int>((position + rows - 1) / numerics::kKvBlock - first + 1);
  }

  static __device__ __forceinline__ void plan(const SplitWork& work, FreeUnitList& list) {
    const int lane = static_cast<int>(threadIdx.x);
    int longest = 0, tiles = 0;
    for (int t = lane; t < work.tiles; t += 32) {
      longest = max(longest, list.starts[t + 1]);
      tiles += list.starts[t + 1] > 0 ? 1 : 0;
    }
    longest = __reduce_max_sync(kWholeWarp, longest);
    const int units = __reduce_add_sync(kWholeWarp, tiles) * work.chunks * work.shape.kv_heads;
    if (longest == 0) return;  // padding alone
    const int slots = static_cast<int>(gridDim.x);
    const int best = __reduce_max_sync(kWholeWarp, best_split_use(units, slots, longest, lane + 1, 32));
    const int splits =
        __reduce_min_sync(kWholeWarp, fewest_good_splits(units, slots, longest, best, lane + 1, 32));
    const int each = free_split_blocks(longest, splits);
    if (lane == 0) list.split_blocks = each;
    for (int t = lane; t < work.tiles; t += 32) list.starts[t + 1] = (list.starts[t + 1] + each - 1) / each;
    __syncwarp();
  }

  static __device__ __forceinline__ void cut(const FreeUnitList& list, int64_t seen, int split, Unit& unit) {
    const int64_t end = (unit.position + unit.rows - 1) / numerics::kKvBlock + 1;
    unit.block_begin = seen / numerics::kKvBlock + static_cast<int64_t>(split) * list.split_blocks;
    unit.block_end = min(unit.block_begin + list.split_blocks, end);
  }
};

template <int kTiles>
__global__ void __launch_bounds__(kSplitThreads, Mma16Rows<kTiles>::kResident)
    free_splits_kernel(const __grid_constant__ SplitWork work) {
  run_units<Mma16Rows<kTiles>, FreeCut, kTiles>(work);
}

template <int kTiles>
void launch(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  launch_units<free_splits_kernel<kTiles>, Mma16Rows<kTiles>, kTiles>(stream, processors, work, blocks);
}

}  // namespace

void launch_free_splits(cudaStream_t stream, int processors, const SplitWork& work, int64_t blocks) {
  switch (kv_tiles(work.shape.head_padded)) {
    case 1: return launch<1>(stream, processors, work, blocks);
    case 2: return launch<2>(stream, processors, work, blocks);
    case 3: return launch<3>(stream, processors, work, blocks);
    default: return launch<4>(stream, processors, work, blocks);
  }
}

}  // namespace eadem::kernels::cuda
