#include "kernels/cuda/linear/wgmma_plan.h"

#include <algorithm>

#include "kernels/cuda/linear/wgmma_launch.h"

namespace eadem::kernels::cuda {
namespace {

// Cycles of a k block of 64: the tensor cores' or shared memory's, whose ports carry what the two warpgroups read (each
// its own rows and all columns) and what arrives, 128 bytes a cycle.
int block_cycles(int columns) { return std::max(4 * columns, 256 + 3 * columns); }

struct Candidate {
  int columns;
  bool split;
};

}  // namespace

WgmmaPlan plan_wgmma(int n, int rows, int shards, int processors) {
  static constexpr Candidate kChains[] = {{48, false},  {64, false},  {96, false},
                                          {128, false}, {192, false}, {256, false}};
  static constexpr Candidate kTrees[] = {{128, false}, {64, true}, {128, true}};
  const Candidate* candidates = shards == 1 ? kChains : kTrees;
  const int count = shards == 1 ? 6 : shards == 8 ? 3 : 1;
  const int row_tiles = (rows + kWgmmaRows - 1) / kWgmmaRows;

  WgmmaPlan best;
  long best_cost = 0;
  for (int i = 0; i < count; ++i) {
    const Candidate& c = candidates[i];
    const long tiles = static_cast<long>(row_tiles) * ((n + c.columns - 1) / c.columns);
    if (c.split && 2 * tiles > processors) continue;  // a split tile is its cluster's only one
    const long waves = c.split ? 1 : (tiles + processors - 1) / processors;
    const long cost = waves * block_cycles(c.columns) / (c.split ? 2 : 1);
    if (best.columns != 0 && cost >= best_cost) continue;
    best = {c.columns, c.split};
    best_cost = cost;
  }
  return best;
}

}  // namespace eadem::kernels::cuda
