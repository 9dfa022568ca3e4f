// How the rows of a batch are cut into attention tasks: (tile of rows of one sequence, KV head), each walking its
// splits in order and merging as it goes; or, where that leaves workers idle, one task a split, merged in order
// afterwards. Same tree either way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel_set.h"

namespace eadem::plan {

struct AttentionTile {
  int sequence = 0;
  int row_begin = 0, row_end = 0;          // rows of the batch
  int64_t split_begin = 0, split_end = 0;  // splits in which some row of the tile sees a key
};

struct AttentionPlan {
  int tile_rows = 1;  // most rows of a tile
  bool parallel_splits = false;
};

using RowRun = kernels::DeviceRun;

AttentionPlan plan_attention(const kernels::AttentionShape& shape, std::span<const RowRun> runs, int threads);
// Into `tiles`, which keeps its storage from step to step.
void attention_tiles(const kernels::AttentionShape& shape, std::span<const RowRun> runs, const AttentionPlan& plan,
                     std::vector<AttentionTile>& tiles);

}  // namespace eadem::plan
