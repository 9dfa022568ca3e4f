// How a linear layer is cut over a CUDA device. A plan is a function of shape, rows and processors alone, and moves
// whole chains, never a part of one: no plan can reach the bits.
#pragma once

#include <vector>

#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

struct LinearPlan {
  int rows = 8;          // rows of a block: 8, 16, 32, 64 (fma32: 1, 2, 4, 8)
  int warpgroups = 0;    // warpgroups of a CTA that compute, 1 or 2; 0: warps do, of 16 outputs each (fma32: 0)
  int outputs = 64;      // outputs of a warpgroup, a multiple of 8 up to 64; of warps together, of 16 up to 128
  int split = 1;         // CTAs of a cluster that share out the shards; divides shards (fma32: 1)
  int residents = 2;     // CTAs of a processor, for which shared memory is left
  int row_groups = 1;    // groups of warps, or warpgroups, that share out a block's rows (int8)
  bool own_row = false;  // each CTA quantises the call's only row by itself (int8, warps, groups of 128, no minimum)

  int item_outputs() const { return warpgroups == 0 ? outputs : warpgroups * outputs; }
  int group_rows() const { return rows / row_groups; }
};

// rows >= 1. Plans for more rows than fit a block walk over blocks.
LinearPlan plan_linear(const LinearShape& shape, int rows, int processors);

// Plans that cover the space, for tests: all give the same bytes.
std::vector<LinearPlan> legal_linear_plans(const LinearShape& shape);

}  // namespace eadem::kernels::cuda
