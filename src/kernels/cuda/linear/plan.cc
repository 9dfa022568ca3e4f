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

// Warps of a CTA that computes shards of the tree, or none, for which there are registers.
int most_warps(const LinearShape& s, const LinearPlan& p) { return 4 * (16384 / 32 / linear_registers(s, p)); }

bool legal(const LinearShape& s, const LinearPlan& p) {
  const bool int8 = s.numerics == Numerics::kInt8;
  // int8's warps have registers for 32 rows, and its warpgroups are of no use for fewer.
  const int rows = p.group_rows(), least = int8 && p.warpgroups > 0 ? 32 : 8,
            most = int8 && p.warpgroups == 0 ? 32 : 64;
  if (rows < least || rows > most || (p.row_groups > 1 && !int8)) return false;
  if (p.own_row && !(int8 && p.warpgroups == 0 && p.rows == 8 && s.group == 128 && !s.minimum)) return false;
  if (s.shards / p.split > 1 << tree_levels(rows) || linear_threads(p) / 32 + 1 > most_warps(s, p)) return false;
  return linear_stages(s, p) >= 2;
}

// Every plan for blocks of that many rows.
std::vector<LinearPlan> plans_of(const LinearShape& s, int rows) {
  std::vector<LinearPlan> plans;
  for (int warpgroups = 0; warpgroups <= 2; ++warpgroups) {
    const int step = warpgroups == 0 ? 16 : 8, most = warpgroups == 0 ? 128 : 64;
    for (int outputs = 16; outputs <= most; outputs += step) {
      for (int split = 1; split <= s.shards; split *= 2) {
        for (int row_groups = 1; row_groups <= 4; row_groups *= 2) {
          const LinearPlan plan{rows, warpgroups, outputs, split, 2, row_groups};
          if (legal(s, plan)) plans.push_back(plan);
        }
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

// int8's layers in one chain. own_row: LinearPlan's, for a call of one row.
LinearPlan plan_int8_columns(const LinearShape& s, int block, bool own_row, int processors) {
  const LinearPlan plan = plan_columns(s, block, processors);
  const bool many = ceil_div(s.n, 128) > kResidents * processors, few = s.n <= 64 * processors;
  if (own_row && !many) return {block, 0, outputs_for(s.n, processors * 3 / 4, 16, 64), 1, 1};
  if (block == 16 && many) return {block, 0, 128, 1, 1, 2};
  if (block == 32) {
    if (few) return {block, 0, outputs_for(s.n, processors, 16, 64), 1, 1, 2};
    if (many) return {block, 0, 128, 1, 1, 2};
    return {block, 2, 64, 1, kResidents};
  }
  // A processor has registers for three CTAs of one warpgroup; a quarter of its shared memory each.
  if (block == 64 && !few && !many) return {block, 1, 64, 1, 4};
  return plan;
}

// int8's layers in eight shards. A chain that fits the ring is over soon, and what comes before and after it counts:
// three small CTAs a processor, the third for what clusters of four leave over. Longer ones want the deeper ring. From
// 32 rows on a CTA receives as many bytes of activations as of weights, unless it has more outputs or less of k.
LinearPlan plan_int8_rows_parallel(const LinearShape& s, int block, bool own_row, int processors) {
  const bool brief = k_tiles(s) <= 32, halves = s.shards == 8;
  const int split = std::min(4, s.shards);
  if (block == 64 && !(brief && halves)) return {block, 1, 64, halves ? 2 : split, 1, 2};
  if (block >= 32 && halves) return {block, 0, 32, 2, kResidents, block / 16};
  if (brief) return {block, 0, outputs_for(s.n, kResidents * processors / split, 16, 64), split, 3};
  if (own_row && halves) return {block, 0, outputs_for(s.n, processors / 2, 16, 64), 2, 1};
  return plan_rows_parallel(s, block, processors);
}

LinearPlan plan_int8(const LinearShape& s, int rows, int block, int processors) {
  const bool own_row = rows == 1 && s.group == 128 && !s.minimum;
  LinearPlan plan = s.shards > 1 ? plan_int8_rows_parallel(s, block, own_row, processors)
                                 : plan_int8_columns(s, block, own_row, processors);
  plan.own_row = own_row && plan.warpgroups == 0;
  // A warp has registers for 32 rows at most.
  if (plan.warpgroups == 0 && plan.group_rows() > 32) plan.row_groups = plan.rows / 32;
  return plan;
}

}  // namespace

LinearPlan plan_linear(const LinearShape& shape, int rows, int processors) {
  const int block = block_rows(shape, rows);
  if (shape.numerics == Numerics::kFma32) return plan_fma32(block, kFma32Batch);
  LinearPlan plan;
  if (shape.numerics == Numerics::kInt8) {
    plan = plan_int8(shape, rows, block, processors);
  } else if (shape.shards > 1) {
    plan = plan_rows_parallel(shape, block, processors);
  } else {
    plan = plan_columns(shape, block, processors);
  }
  if (!legal(shape, plan)) plan.residents = 1;
  if (!legal(shape, plan)) plan.own_row = false;
  if (!legal(shape, plan) && plan.warpgroups == 0) plan.row_groups = std::max(1, block / 32);
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
