// A tile of prefill attention (prefill.cuh): its shared memory, its rows, the blocks of keys that they see.
#pragma once

#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/attention/prefill_args.h"
#include "kernels/cuda/hopper.cuh"

namespace eadem::kernels::cuda {

// Where the sums of the splits before lie. kNone: the keys are one chain, which is free order, not the contract's tree.
enum class PrefillTotals { kShared, kGlobal, kNone };

// kTiles_: column tiles of 64 of a head; kGroups_: warpgroups of 64 rows; kKeys_, kValues_: stages of K and of V.
template <int kTiles_, int kGroups_, int kKeys_, int kValues_, PrefillTotals kTotals>
struct PrefillLayout {
  static constexpr int kTiles = kTiles_, kGroups = kGroups_, kKeys = kKeys_, kValues = kValues_;
  static constexpr bool kTotalShared = kTotals == PrefillTotals::kShared, kSplits = kTotals != PrefillTotals::kNone;
  static constexpr int kHead = 64 * kTiles, kRegisters = kHead / 2, kImage = kTiles * kKvTileBytes;
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kTotalBytes = 64 * kHead * 4;  // of a warpgroup
  // Shared memory begins at 1,024 where a kernel has none but dynamic one; the kernel checks it. Constant addresses
  // keep descriptors out of the way of the arithmetic.
  static constexpr uint32_t kQ = 1024, kK = kQ + kGroups * kImage, kV = kK + kKeys * kImage;
  static constexpr uint32_t kTotal = kV + kValues * kImage;
  static constexpr uint32_t kBarriers = kTotal + (kTotalShared ? kGroups * kTotalBytes : 0);
  static constexpr uint32_t kQFull = kBarriers, kQEmpty = kQFull + 8 * kGroups;
  static constexpr uint32_t kKFull = kQEmpty + 8 * kGroups, kKEmpty = kKFull + 8 * kKeys;
  static constexpr uint32_t kVFull = kKEmpty + 8 * kKeys, kVEmpty = kVFull + 8 * kValues;
  static constexpr uint32_t kWork = kVEmpty + 8 * kValues;  // the tile each warpgroup takes next
  static constexpr int kSharedBytes = static_cast<int>(kWork + 4 * kGroups - kQ);
  static_assert(kSharedBytes <= 232448);
};

// The blocks of keys that some row of [row, row + count) of a run sees: [begin, end); none where the run has no such
// row.
struct PrefillBlocks {
  int begin, end;
};

EADEM_DEVICE PrefillBlocks blocks_of(const PrefillArgs& a, const PrefillRun& run, int row, int count) {
  if (row >= run.rows) return {0, 0};
  const int first = run.first_position + row, last = run.first_position + min(run.rows, row + count) - 1;
  const int seen = a.window == 0 || first < a.window ? 0 : first - a.window + 1;
  return {seen / 64, last / 64 + 1};
}

struct PrefillWork {
  PrefillRun run;
  int head, row;
};

EADEM_DEVICE PrefillWork work_of(const PrefillArgs& a, int work, int tile_rows) {
  const PrefillTile tile = a.tiles[work / a.heads];
  return {a.runs[tile.run], work % a.heads, tile.index * tile_rows};
}

}  // namespace eadem::kernels::cuda
