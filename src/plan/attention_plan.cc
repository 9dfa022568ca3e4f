#include "plan/attention_plan.h"

#include <algorithm>

#include "numerics/attention.h"

namespace eadem::plan {
namespace {

// Query rows x heads of a group that share one pass over the keys: their state stays in the first-level caches.
constexpr int kRowHeads = 48;
// Partial results of splits are kept only for so many row-heads, so that long prefills need no memory for them.
constexpr int kParallelRowHeads = 64;

}  // namespace

AttentionPlan plan_attention(const kernels::AttentionShape& shape, std::span<const RowRun> runs, int threads) {
  AttentionPlan plan;
  plan.tile_rows = std::max(1, kRowHeads / shape.group());
  int tasks = 0, rows = 0;
  int64_t longest = 0;
  for (const RowRun& run : runs) {
    const int count = run.row_end - run.row_begin;
    rows += count;
    tasks += (count + plan.tile_rows - 1) / plan.tile_rows * shape.kv_heads;
    longest = std::max(longest, run.last_position);
  }
  plan.parallel_splits =
      longest >= numerics::kSplit && tasks < 2 * threads && rows * shape.group() <= kParallelRowHeads;
  return plan;
}

void attention_tiles(const kernels::AttentionShape& shape, std::span<const RowRun> runs, const AttentionPlan& plan,
                     std::vector<AttentionTile>& tiles) {
  tiles.clear();
  for (const RowRun& run : runs) {
    for (int row = run.row_begin; row < run.row_end; row += plan.tile_rows) {
      AttentionTile tile;
      tile.sequence = run.sequence;
      tile.row_begin = row;
      tile.row_end = std::min(row + plan.tile_rows, run.row_end);
      const int64_t first = run.first_position + (tile.row_begin - run.row_begin);
      const int64_t last = run.first_position + (tile.row_end - 1 - run.row_begin);
      tile.split_begin = numerics::first_visible(first, shape.window) / numerics::kSplit;
      tile.split_end = last / numerics::kSplit + 1;
      tiles.push_back(tile);
    }
  }
}

}  // namespace eadem::plan
