// How a linear layer is cut over a CUDA device. A plan is a function of shape, rows and processors alone, and moves
// whole chains, never a part of one: no plan can reach the bits.
#pragma once

#include <vector>

#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

struct LinearPlan {
  int rows = 8;        // rows of a block: 8, 16, 32, 64 (fma32: 1, 2, 4, 8)
  int warpgroups = 0;  // warpgroups of a CTA that compute, 1 to 3; 0: warps do, of 16 outputs each (fma32: 0)
  int outputs = 64;    // outputs of a warpgroup, a multiple of 8 up to 64; of warps together, of 16 up to 192
  int split = 1;       // CTAs of a cluster that share out the shards; divides shards (fma32: 1)
  int residents = 2;   // CTAs of a processor, for which shared memory is left
  int row_groups = 1;  // groups of warps, or warpgroups, that share out a block's rows (int8)
  // Rows of the call that each CTA quantises by itself: all, of a block of 8 or 16, or the only one; 0: a kernel does
  // it before (int8, warps, groups of 128, no minimum).
  int own_rows = 0;

  int item_outputs() const { return warpgroups == 0 ? outputs : warpgroups * outputs; }
  int group_rows() const { return rows / row_groups; }
};

// rows >= 1. Plans for more rows than fit a block walk over blocks.
LinearPlan plan_linear(const LinearShape& shape, int rows, int processors);

// Plans that cover the space, for tests of so many rows: all give the same bytes.
std::vector<LinearPlan> legal_linear_plans(const LinearShape& shape, int rows);

}  // namespace eadem::kernels::cuda
