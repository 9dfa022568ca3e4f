#include "kernels/cuda/linear/plan.h"

#include <algorithm>
#include <numeric>

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

// Whether an item never reaches into a third row of tiles.
bool in_two_tiles(int outputs) { return outputs <= kTileRows + std::gcd(outputs, kTileRows); }

// Rows of a call that each CTA may quantise by itself in blocks of that many; 0: none.
int own_rows_of(const LinearShape& s, int rows, int block) {
  const bool may = s.numerics == Numerics::kInt8 && s.group == 128 && !s.minimum && rows <= block && block <= 16;
  return !may ? 0 : rows == 1 && block == 8 ? 1 : block;
}

bool legal(const LinearShape& s, const LinearPlan& p) {
  const bool int8 = s.numerics == Numerics::kInt8;
  // int8's warps have registers for 32 rows, and its warpgroups are of no use for fewer.
  const int rows = p.group_rows(), least = int8 && p.warpgroups > 0 ? 32 : 8,
            most = int8 && p.warpgroups == 0 ? 32 : 64;
  if (rows < least || rows > most || (p.row_groups > 1 && !int8)) return false;
  if (p.own_rows > 0 && (p.warpgroups > 0 || own_rows_of(s, p.own_rows, p.rows) != p.own_rows)) return false;
  if (!in_two_tiles(p.item_outputs())) return false;
  const int warps = linear_workers(s, p) / 32 + linear_producers(s, p);
  if (s.shards / p.split > 1 << tree_levels(rows) || warps > most_warps(s, p)) return false;
  return linear_stages(s, p) >= 2;
}

// Every plan for blocks of that many rows, whose CTAs quantise own_rows of them.
std::vector<LinearPlan> plans_of(const LinearShape& s, int rows, int own_rows) {
  const bool int8 = s.numerics == Numerics::kInt8;
  std::vector<LinearPlan> plans;
  for (int warpgroups = 0; warpgroups <= (int8 ? 3 : 2); ++warpgroups) {
    const int step = warpgroups == 0 ? 16 : 8, most = warpgroups > 0 ? 64 : int8 ? 192 : 128;
    for (int outputs = 16; outputs <= most; outputs += step) {
      for (int split = 1; split <= s.shards; split *= 2) {
        for (int row_groups = 1; row_groups <= 4; row_groups *= 2) {
          for (const int residents : {1, 2, 3}) {
            if (outputs % (residents == 1 ? 16 : residents == 2 ? 8 : 32) != 0) continue;
            const LinearPlan plan{rows, warpgroups, outputs, split, residents, row_groups, own_rows};
            if (legal(s, plan)) plans.push_back(plan);
          }
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

// int8's layers in one chain, groups of 32.
LinearPlan plan_int8_columns(const LinearShape& s, int block, int processors) {
  const LinearPlan plan = plan_columns(s, block, processors);
  const bool many = ceil_div(s.n, 128) > kResidents * processors, few = s.n <= 64 * processors;
  if (block == 16 && many) return {block, 0, 128, 1, 1, 2};
  if (block == 32) {
    if (few) return {block, 0, outputs_for(s.n, processors, 16, 64), 1, 1, 2};
    if (many) return {block, 0, 128, 1, 1, 2};
    return {block, 2, 64, 1, kResidents};
  }
  return plan;
}

// int8's layers in eight shards, groups of 32. A chain that fits the ring is over soon, and what comes before and after
// it counts: three small CTAs a processor, the third for what clusters of four leave over. Longer ones want the deeper
// ring. From 32 rows on a CTA receives as many bytes of activations as of weights, unless it has more outputs or less
// of k.
LinearPlan plan_int8_rows_parallel(const LinearShape& s, int block, int processors) {
  const bool brief = k_tiles(s) <= 32, halves = s.shards == 8;
  const int split = std::min(4, s.shards);
  if (block == 64 && !(brief && halves)) return {block, 1, 64, halves ? 2 : split, 1, 2};
  if (block >= 32 && halves) return {block, 0, 32, 2, kResidents, block / 16};
  if (brief) return {block, 0, outputs_for(s.n, kResidents * processors / split, 16, 64), split, 3};
  return plan_rows_parallel(s, block, processors);
}

// Outputs of a CTA alone on its processor, in steps of `unit` between the limits: as many as balance the processors
// over all blocks of rows.
int outputs_alone(int n, int row_blocks, int processors, int unit, int least, int most) {
  int best = least;
  const auto cost = [&](int outputs) { return ceil_div(ceil_div(n, outputs) * row_blocks, processors) * outputs; };
  for (int outputs = least; outputs <= most; outputs += unit) {
    if (in_two_tiles(outputs) && cost(outputs) <= cost(best)) best = outputs;
  }
  return best;
}

// Groups of 128, up to 16 rows: warps. Each CTA quantises one row by itself, and up to 16 where a chain fits the ring:
// it is over before a kernel that quantises would pay.
LinearPlan plan_int8_few(const LinearShape& s, int rows, int block, int processors) {
  const int own_rows = own_rows_of(s, rows, block), own_row = rows == 1 ? own_rows : 0, split = std::min(4, s.shards);
  if (s.shards > 1) {
    if (k_tiles(s) <= 32) {
      if (block == 16) {
        return {block, 0, outputs_for(s.n, processors * 4 / 5 / split, 16, 160), split, 1, 1, own_rows};
      }
      return {block, 0, outputs_for(s.n, kResidents * processors / split, 16, 64), split, 3, 1, own_rows};
    }
    if (s.shards == 8) {
      const int clusters = rows == 1 ? processors / 2 : processors * 2 / 5;
      return {block, 0, outputs_for(s.n, clusters, 16, 80), 2, 1, 1, own_row};
    }
    LinearPlan plan = plan_rows_parallel(s, block, processors);
    plan.own_rows = own_row;
    return plan;
  }
  const bool few = s.n <= 64 * processors, many = ceil_div(s.n, 128) > kResidents * processors;
  if (rows == 1 && few) {
    return {block, 0, outputs_for(s.n, kResidents * processors, 16, 64), 1, kResidents, 1, own_row};
  }
  if (few || (rows == 1 && !many)) return {block, 0, outputs_for(s.n, processors * 3 / 4, 16, 64), 1, 1, 1, own_row};
  return {block, 0, outputs_alone(s.n, 1, processors, 32, 64, rows == 1 ? 128 : 192), 1, 1, 1, own_row};
}

// Groups of 128 and more rows: warpgroups of a CTA alone on its processor, so that activations come in once for as many
// outputs as there are. Where those are few, two warpgroups share out 64 rows: one adds while the other multiplies.
// Brief chains go by warps: more, smaller CTAs.
LinearPlan plan_int8_many(const LinearShape& s, int rows, int block, int processors) {
  const int row_groups = block / 32, row_blocks = ceil_div(rows, block);
  if (s.shards > 1) {
    const int split = s.shards == 8 ? 2 : std::min(4, s.shards);
    if (s.shards == 8 && k_tiles(s) <= 32) return {block, 0, 32, split, kResidents, block / 16};
    return {block, 1, outputs_for(s.n, processors / split, 16, 64), split, 1, row_groups};
  }
  if (s.n * row_blocks <= 64 * processors) {
    return {block, 1, outputs_for(s.n * row_blocks, processors * 3 / 4, 16, 64), 1, 1, row_groups};
  }
  return {block, outputs_alone(s.n, row_blocks, processors, 64, 128, 192) / 64, 64, 1, 1};
}

LinearPlan plan_int8(const LinearShape& s, int rows, int block, int processors) {
  if (s.group == 128) {
    return block <= 16 ? plan_int8_few(s, rows, block, processors) : plan_int8_many(s, rows, block, processors);
  }
  LinearPlan plan =
      s.shards > 1 ? plan_int8_rows_parallel(s, block, processors) : plan_int8_columns(s, block, processors);
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
  // Rows of a long k leave too little of the shared memory to the ring.
  if (!legal(shape, plan) || (plan.own_rows > 1 && linear_stages(shape, plan) < 5)) plan.own_rows = 0;
  if (!legal(shape, plan) && plan.warpgroups == 0) plan.row_groups = std::max(1, block / 32);
  return plan;
}

std::vector<LinearPlan> legal_linear_plans(const LinearShape& shape, int rows) {
  std::vector<LinearPlan> plans;
  if (shape.numerics == Numerics::kFma32) {
    for (int block = 1; block <= 8; block *= 2) {
      for (int batch = 1; batch <= kFma32Batch; ++batch) plans.push_back(plan_fma32(block, batch));
    }
    return plans;
  }
  for (int block = block_rows(shape, 1); block <= block_rows(shape, 64); block *= 2) {
    const int own_rows = own_rows_of(shape, rows, block);
    for (const int own : {0, own_rows}) {
      const std::vector<LinearPlan> some = plans_of(shape, block, own);
      plans.insert(plans.end(), some.begin(), some.end());
      if (own_rows == 0) break;
    }
  }
  return plans;
}

}  // namespace eadem::kernels::cuda
