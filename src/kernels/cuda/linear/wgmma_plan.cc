#include "kernels/cuda/linear/wgmma_plan.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/linear/wgmma_launch.h"

namespace eadem::kernels::cuda {
namespace {

// Cycles of a k block of 64: the tensor cores' or shared memory's, whose ports carry what the warpgroups read (each its
// own 64 rows and all columns) and what arrives, 128 bytes a cycle.
int block_cycles(const WgmmaPlan& p) {
  const int groups = p.rows / 64;
  return std::max(2 * groups * p.columns, 128 * groups + (1 + groups) * p.columns);
}

// The fastest of the candidates; columns 0 where none is possible.
WgmmaPlan best_of(std::initializer_list<WgmmaPlan> candidates, int n, int rows, int processors) {
  WgmmaPlan best;
  long best_cost = 0;
  for (const WgmmaPlan& c : candidates) {
    const long tiles = static_cast<long>((rows + c.rows - 1) / c.rows) * ((n + c.columns - 1) / c.columns);
    if (c.split && 2 * tiles > processors) continue;  // a split tile is its cluster's only one
    const long waves = c.split ? 1 : (tiles + processors - 1) / processors;
    const long cost = waves * block_cycles(c) / (c.split ? 2 : 1);
    if (best.columns != 0 && cost >= best_cost) continue;
    best = c;
    best_cost = cost;
  }
  return best;
}

}  // namespace

WgmmaPlan plan_wgmma(int n, int rows, int shards, int processors) {
  const bool chain = shards == 1;
  if (rows <= 64) {
    const WgmmaPlan few =
        chain ? best_of({{48, false, 64}, {64, false, 64}, {96, false, 64}, {128, false, 64}, {192, false, 64}}, n,
                        rows, processors)
              : best_of({{64, true, 64}}, n, rows, shards == 8 ? processors : 0);
    if (few.columns != 0) return few;
  }
  if (chain) return best_of({{48}, {64}, {96}, {128}, {192}, {256}}, n, rows, processors);
  if (shards != 8) return {128};
  return best_of({{128}, {64, true}, {128, true}}, n, rows, processors);
}

}  // namespace eadem::kernels::cuda
