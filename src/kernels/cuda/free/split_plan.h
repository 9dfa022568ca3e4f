// Into how many splits free order cuts the keys of a launch: enough to fill the device, as FlashDecoding does it. So
// the number depends on how many rows there are and on the longest context among them.
#pragma once

#include "numerics/config.h"

namespace eadem::kernels::cuda {

inline constexpr int kMostFreeSplits = 128;
inline constexpr int kLeastSplitBlocks = 2;  // KV blocks of a split: with less there is nothing to share out
inline constexpr int kMostWaves = 4;  // of units over the slots, where keys are split: bounds the partial results

// Most splits that are looked at. units: (tile, chunk, KV head) triples of the launch; slots: blocks of threads that
// run at once; blocks: KV blocks of the longest unit.
EADEM_FN int most_free_splits(int units, int slots, int blocks) {
  if (5 * units >= 4 * slots) return 1;  // nearly full without
  int most = kMostWaves * slots / units;
  if (most > blocks / kLeastSplitBlocks) most = blocks / kLeastSplitBlocks;
  if (most > kMostFreeSplits) most = kMostFreeSplits;
  return most > 1 ? most : 1;
}

EADEM_FN int free_split_blocks(int blocks, int splits) { return (blocks + splits - 1) / splits; }

// In 4,096ths the share of the slots' time that is used with so many splits; 0 where blocks do not cut that way.
EADEM_FN int split_use(int units, int slots, int blocks, int splits) {
  const int each = free_split_blocks(blocks, splits);
  if ((blocks + each - 1) / each != splits) return 0;
  const int all = units * splits, waves = (all + slots - 1) / slots;
  return all * 4096 / (waves * slots);
}

// The best use of first, first + step, ... splits.
EADEM_FN int best_split_use(int units, int slots, int blocks, int first, int step) {
  int best = 0;
  for (int splits = first; splits <= most_free_splits(units, slots, blocks); splits += step) {
    const int use = split_use(units, slots, blocks, splits);
    if (use > best) best = use;
  }
  return best;
}

// The fewest of first, first + step, ... splits that come to 85 % of the best; else kMostFreeSplits.
EADEM_FN int fewest_good_splits(int units, int slots, int blocks, int best, int first, int step) {
  for (int splits = first; splits <= most_free_splits(units, slots, blocks); splits += step) {
    if (100 * split_use(units, slots, blocks, splits) >= 85 * best) return splits;
  }
  return kMostFreeSplits;
}

// units, slots, blocks >= 1. On a device the lanes of a warp share the work out (free/splits.cu).
EADEM_FN int free_splits(int units, int slots, int blocks) {
  return fewest_good_splits(units, slots, blocks, best_split_use(units, slots, blocks, 1, 1), 1, 1);
}

}  // namespace eadem::kernels::cuda
