#include "kernels/cuda/linear/wgmma.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/wgmma_launch.h"
#include "kernels/cuda/linear/wgmma_plan.h"
#include "kernels/cuda/tensor_map.h"

namespace eadem::kernels::cuda {
namespace {

bool aligned(const void* p, size_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

}  // namespace

bool linear_wgmma_serves(const LinearCall& call) {
  return call.shape->numerics == Numerics::kMma16 && call.shape->n % 2 == 0 && call.y_stride % 2 == 0 &&
         aligned(call.y, 8) && aligned(call.bias, 8) && aligned(call.x.operands, 16) && aligned(call.weights, 16);
}

void linear_wgmma(cudaStream_t stream, const LinearCall& call, int rows, int processors) {
  const LinearShape& s = *call.shape;
  linear_wgmma(stream, call, rows, processors, plan_wgmma(s.n, rows, s.shards, processors));
}

bool linear_wgmma_suits(const LinearShape& s, int rows, int processors) {
  if (rows > 64) return true;
  const WgmmaPlan plan = plan_wgmma(s.n, rows, s.shards, processors);
  const int blocks = (s.n + plan.columns - 1) / plan.columns * (plan.split ? 2 : 1);
  return plan.rows == 64 && 5 * blocks >= processors && (rows > 16 || blocks <= processors);
}

namespace {

// Of a call without its results: outputs of a tile's columns.
WgmmaLaunch describe(const LinearCall& call, int rows, int rows_of_tile, int outputs_of_tile, int outputs) {
  const LinearShape& s = *call.shape;
  WgmmaLaunch launch;
  WgmmaArgs& a = launch.args;
  a.weights = call.weights;
  a.rows = rows;
  a.n = s.n;
  a.weight_tiles = row_tiles(s);
  a.k_tiles = k_tiles(s);
  a.shard_k = shard_k(s);
  a.shard_tiles = shard_tiles(s);
  a.row_tiles = (rows + rows_of_tile - 1) / rows_of_tile;
  a.column_tiles = (outputs + outputs_of_tile - 1) / outputs_of_tile;
  const auto x_map = [&](int height) {
    const auto k = static_cast<uint64_t>(s.k_padded), m = static_cast<uint64_t>(rows);
    return make_tensor_map(call.x.operands, TensorElement::kBf16, {k, m}, {k * sizeof(uint16_t)},
                           {kWgmmaK, static_cast<uint32_t>(height)});
  };
  launch.x = x_map(rows_of_tile);
  launch.x_tail = rows % rows_of_tile == 0 ? launch.x : x_map(rows % rows_of_tile);
  launch.y = launch.x;
  return launch;
}

}  // namespace

void linear_wgmma(cudaStream_t stream, const LinearCall& call, int rows, int processors, const WgmmaPlan& plan) {
  EADEM_CHECK(linear_wgmma_serves(call) && rows > 0);
  const LinearShape& s = *call.shape;
  WgmmaLaunch launch = describe(call, rows, plan.rows, plan.columns, s.n);
  WgmmaArgs& a = launch.args;
  a.bias = call.bias;
  a.y = call.y;
  a.y_stride = call.y_stride;
  a.add_to_y = call.add_to_y;
  a.boxes = s.n % 4 == 0 && call.y_stride % 4 == 0 && aligned(call.y, 16);  // a box is clipped to 16 bytes
  const int tiles = a.row_tiles * a.column_tiles;
  launch.blocks = plan.split ? 2 * tiles : std::min(tiles, processors);
  if (a.boxes) {
    launch.y =
        make_tensor_map(call.y, TensorElement::kFloat32, {static_cast<uint64_t>(s.n), static_cast<uint64_t>(rows)},
                        {static_cast<uint64_t>(call.y_stride) * sizeof(float)}, {kWgmmaBoxColumns, 64});
  }
  const WgmmaKernel kernel = s.shards == 1 ? wgmma_chain_kernel(plan.rows, plan.columns)
                                           : wgmma_tree_kernel(plan.rows, plan.columns, s.shards, plan.split);
  EADEM_CHECK(kernel != nullptr);
  kernel(stream, launch);
}

// A smaller tile that suits few rows better has gates alone, or ups alone.
bool linear_wgmma_gates(const LinearShape& s, int rows, int processors) {
  return s.numerics == Numerics::kMma16 && s.shards == 1 && s.n % kWgmmaGatedColumns == 0 &&
         plan_wgmma(s.n, rows, s.shards, processors).columns == kWgmmaGatedColumns;
}

void linear_wgmma_gated(cudaStream_t stream, const LinearCall& call, const SwigluCall& swiglu, int rows,
                        int processors) {
  const LinearShape& s = *call.shape;
  EADEM_CHECK(rows > 0 && s.numerics == Numerics::kMma16 && s.shards == 1 && s.n % kWgmmaGatedColumns == 0);
  EADEM_CHECK(call.bias == nullptr && aligned(call.x.operands, 16) && aligned(call.weights, 16));
  EADEM_CHECK(aligned(swiglu.y, 16) && swiglu.y_stride % 8 == 0);
  WgmmaLaunch launch = describe(call, rows, kWgmmaGatedRows, kWgmmaGatedColumns / 2, s.n / 2);
  WgmmaArgs& a = launch.args;
  a.bad = swiglu.bad;
  a.boxes = true;
  launch.blocks = std::min(a.row_tiles * a.column_tiles, processors);
  launch.y =
      make_tensor_map(swiglu.y, TensorElement::kBf16, {static_cast<uint64_t>(s.n / 2), static_cast<uint64_t>(rows)},
                      {static_cast<uint64_t>(swiglu.y_stride) * sizeof(uint16_t)}, {64, 64});
  wgmma_gated_kernel()(stream, launch);
}

}  // namespace eadem::kernels::cuda
