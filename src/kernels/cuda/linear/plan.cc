#include "kernels/cuda/linear/plan.h"

#include <algorithm>

#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::cuda {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The smallest block that holds the rows, else the largest.
int block_rows(const LinearShape& s, int rows) {
  int block = s.numerics == Numerics::kFma32 ? 1 : 8;
  const int most = s.numerics == Numerics::kFma32 ? 8 : 64;
  while (block < rows && block < most) block *= 2;
  return block;
}

bool legal(const LinearShape& s, const LinearPlan& p) {
  if (s.numerics == Numerics::kFma32) return linear_stages(s, p) >= kFma32Warps;
  return s.shards / p.split <= 1 << tree_levels(p.rows) && linear_stages(s, p) >= 2;
}

// Every plan for blocks of that many rows.
std::vector<LinearPlan> plans_of(const LinearShape& s, int rows) {
  std::vector<LinearPlan> plans;
  const bool fma32 = s.numerics == Numerics::kFma32;
  for (int warpgroups = 0; warpgroups <= (fma32 ? 0 : 2); ++warpgroups) {
    const int step = warpgroups == 0 ? 16 : 8, most = warpgroups == 0 && !fma32 ? 128 : 64;
    for (int outputs = 16; outputs <= most; outputs += step) {
      for (int split = 1; split <= (fma32 ? 1 : s.shards); split *= 2) {
        const LinearPlan plan{rows, warpgroups, outputs, split, 2};
        if (legal(s, plan)) plans.push_back(plan);
      }
    }
  }
  return plans;
}

// What the busiest processor reads, in bytes of weights; activations come from the second-level cache, at half price.
double busiest_bytes(const LinearShape& s, const LinearPlan& p, int processors) {
  const int items = ceil_div(s.n, p.item_outputs());
  const double k_bytes = static_cast<double>(k_tiles(s)) / p.split * kTileRowBytes;
  return ceil_div(items * p.split, processors) * k_bytes * (p.item_outputs() + 0.5 * p.rows);
}

}  // namespace

LinearPlan plan_linear(const LinearShape& shape, int rows, int processors) {
  LinearPlan best;
  double least = 0.0;
  for (const LinearPlan& plan : plans_of(shape, block_rows(shape, rows))) {
    const double bytes = busiest_bytes(shape, plan, processors);
    if (least > 0.0 && bytes >= least) continue;
    best = plan;
    least = bytes;
  }
  return best;
}

std::vector<LinearPlan> legal_linear_plans(const LinearShape& shape) {
  std::vector<LinearPlan> plans;
  for (int rows = block_rows(shape, 1); rows <= block_rows(shape, 64); rows *= 2) {
    for (const LinearPlan& plan : plans_of(shape, rows)) {
      plans.push_back(plan);
      LinearPlan alone = plan;
      alone.residents = 1;
      if (plan.outputs % 32 == 0) plans.push_back(alone);
    }
  }
  return plans;
}

}  // namespace eadem::kernels::cuda
