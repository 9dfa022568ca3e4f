#include "kernels/cuda/linear/plan.h"

#include <algorithm>

#include "kernels/cuda/linear/fma32.h"
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
  return s.shards / p.split <= 1 << tree_levels(p.rows) && linear_stages(s, p) >= 2;
}

// Every plan for blocks of that many rows.
std::vector<LinearPlan> plans_of(const LinearShape& s, int rows) {
  std::vector<LinearPlan> plans;
  for (int warpgroups = 0; warpgroups <= 2; ++warpgroups) {
    const int step = warpgroups == 0 ? 16 : 8, most = warpgroups == 0 ? 128 : 64;
    for (int outputs = 16; outputs <= most; outputs += step) {
      for (int split = 1; split <= s.shards; split *= 2) {
        const LinearPlan plan{rows, warpgroups, outputs, split, 2};
        if (legal(s, plan)) plans.push_back(plan);
      }
    }
  }
  return plans;
}

constexpr int kResidents = 2;

// The fewest outputs, in steps of 16 between the limits, with which `ctas` CTAs take all n at once.
int outputs_for(int n, int ctas, int least, int most) {
  return std::clamp((ceil_div(n, std::max(1, ctas)) + 15) / 16 * 16, least, most);
}

// Row-parallel layers: clusters of four share out the shards, as many as come up at once. The processors of a GPC hold
// whole clusters only: 30 of four on 132 processors.
LinearPlan plan_rows_parallel(const LinearShape& s, int block, int processors) {
  const int split = std::min(4, s.shards), clusters = kResidents * processors * 10 / 11 / split;
  return {block, 0, outputs_for(s.n, clusters, 16, 128), split, kResidents};
}

// Column-parallel layers: one chain over all of k. Few rows go through warps; more through warpgroups, which read the
// activations from shared memory once for 64 outputs.
LinearPlan plan_columns(const LinearShape& s, int block, int processors) {
  const bool mma16 = s.numerics == Numerics::kMma16;
  LinearPlan plan{block, 0, outputs_for(s.n, kResidents * processors, 16, 128), 1, kResidents};
  if (block > (mma16 ? 16 : 32) && plan.outputs >= 32) {
    const int outputs = std::max(plan.outputs, 64);
    plan.warpgroups = outputs > 64 ? 2 : 1;
    plan.outputs = outputs / plan.warpgroups;
  }
  // A CTA alone has the deeper ring: where no second one comes anyway, and where CTAs walk over many items.
  const int items = ceil_div(s.n, plan.item_outputs());
  const bool few = plan.warpgroups > 0 && items <= processors, many = items > kResidents * processors;
  if (few || many) plan.residents = 1;
  return plan;
}

// A CTA takes a processor's registers and shared memory, and carries the sums of `batch` groups of outputs.
LinearPlan plan_fma32(int block, int batch) { return {block, 0, kFma32Group * batch, 1, 1}; }

}  // namespace

LinearPlan plan_linear(const LinearShape& shape, int rows, int processors) {
  const int block = block_rows(shape, rows);
  if (shape.numerics == Numerics::kFma32) return plan_fma32(block, kFma32Batch);
  LinearPlan plan =
      shape.shards > 1 ? plan_rows_parallel(shape, block, processors) : plan_columns(shape, block, processors);
  if (!legal(shape, plan)) plan.residents = 1;
  return plan;
}

std::vector<LinearPlan> legal_linear_plans(const LinearShape& shape) {
  std::vector<LinearPlan> plans;
  if (shape.numerics == Numerics::kFma32) {
    for (int rows = 1; rows <= 8; rows *= 2) {
      for (int batch = 1; batch <= kFma32Batch; ++batch) plans.push_back(plan_fma32(rows, batch));
    }
    return plans;
  }
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
