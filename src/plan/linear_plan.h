// How a linear layer's outputs are cut into tiles for the workers. A tile is whole panels and rows, so whole trees: no
// plan can reach the bits. The choice is a function of the shape and the thread count; nothing is ever timed.
#pragma once

#include <vector>

#include "kernels/kernel_set.h"

namespace eadem::plan {

struct LinearPlan {
  int panels = 1;  // panels of a tile
  int rows = 1;    // rows of a tile
};

LinearPlan plan_linear(const kernels::LinearShape& shape, int rows, int threads);

// Plans that cover the space of cuts: single panels and rows, ragged ends, everything at once. For tests: all give the
// same bytes.
std::vector<LinearPlan> legal_linear_plans(const kernels::LinearShape& shape, int rows);

int tile_count(const kernels::LinearShape& shape, int rows, const LinearPlan& plan);
// Rows of the last tile, which has the fewest.
int shortest_rows(int rows, const LinearPlan& plan);
kernels::LinearTile tile_at(const kernels::LinearShape& shape, int rows, const LinearPlan& plan, int index);

}  // namespace eadem::plan
