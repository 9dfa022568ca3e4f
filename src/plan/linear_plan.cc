#include "plan/linear_plan.h"

#include <algorithm>

namespace eadem::plan {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Bytes of operands that stay in the second-level cache while the panels pass.
constexpr int kBytesInCache = 1 << 20;
// Rows that are worth a pass over all weights of their own.
constexpr int kRowsOfAThread = 128;
// Tiles per worker: enough that a late worker costs little, few enough that starting tiles costs nothing. Few rows read
// memory, of which each tile's first panels come late.
constexpr int kTilesPerThread = 4;
constexpr int kFewRows = 16;

}  // namespace

LinearPlan plan_linear(const kernels::LinearShape& shape, int rows, int threads) {
  LinearPlan plan;
  const int rows_in_cache = std::max(64, kBytesInCache / (2 * shape.k_padded));
  int pieces = ceil_div(rows, rows_in_cache);
  // Many rows: a share of them for each thread, which reads and writes them in op after op.
  if (rows >= threads * kRowsOfAThread) pieces = (pieces + threads - 1) / threads * threads;
  plan.rows = ceil_div(rows, pieces);
  const int row_tiles = ceil_div(rows, plan.rows);
  const int of_a_thread = threads == 1 || rows <= kFewRows ? 1 : kTilesPerThread;
  const int wanted = ceil_div(threads * of_a_thread, row_tiles);
  plan.panels = std::max(1, ceil_div(shape.panels(), wanted));
  if (plan.panels > 1) plan.panels += plan.panels % 2;  // kernels take panels in pairs
  return plan;
}

std::vector<LinearPlan> legal_linear_plans(const kernels::LinearShape& shape, int rows) {
  std::vector<LinearPlan> plans;
  for (const int panels : {1, 2, 3, 5, 8, shape.panels()}) {
    for (const int r : {1, 3, 4, 7, 16, rows}) {
      if (panels <= shape.panels() && r <= rows) plans.push_back({panels, r});
    }
  }
  return plans;
}

int tile_count(const kernels::LinearShape& shape, int rows, const LinearPlan& plan) {
  return ceil_div(shape.panels(), plan.panels) * ceil_div(rows, plan.rows);
}

int shortest_rows(int rows, const LinearPlan& plan) { return rows - (ceil_div(rows, plan.rows) - 1) * plan.rows; }

kernels::LinearTile tile_at(const kernels::LinearShape& shape, int rows, const LinearPlan& plan, int index) {
  const int panel_tiles = ceil_div(shape.panels(), plan.panels);
  kernels::LinearTile tile;
  tile.panel_begin = index % panel_tiles * plan.panels;
  tile.panel_end = std::min(tile.panel_begin + plan.panels, shape.panels());
  tile.row_begin = index / panel_tiles * plan.rows;
  tile.row_end = std::min(tile.row_begin + plan.rows, rows);
  return tile;
}

}  // namespace eadem::plan
