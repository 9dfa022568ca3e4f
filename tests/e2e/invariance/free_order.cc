// The negative control of the invariance matrix: linear layers that sum in an order that depends on how many rows are
// computed together, as engines without a contract do. Everything else is the machine's own kernel set.
#include <cstring>

#include "e2e/invariance/cell.h"
#include "numerics/operand.h"

namespace eadem::tests {
namespace {

using kernels::LinearCall;
using kernels::LinearShape;
using kernels::LinearTile;

std::atomic<uint64_t> calls{0};

size_t linear_bytes(const LinearShape& shape) {
  return static_cast<size_t>(shape.panels()) * kernels::kPanel * static_cast<size_t>(shape.k_padded) * sizeof(float);
}

void pack_operands(const LinearShape& shape, int n, const uint16_t* operands, std::byte* weights) {
  float* const row = reinterpret_cast<float*>(weights) + static_cast<size_t>(n) * static_cast<size_t>(shape.k_padded);
  for (int k = 0; k < shape.k_padded; ++k) row[k] = numerics::operand_value(operands[k]);
}

// `parts` partial sums, each over every parts-th element: the split that a batch-size heuristic would choose.
float dot(const float* x, const float* w, int k, int parts) {
  float sums[32] = {};
  for (int i = 0; i < k; i += parts) {
    for (int p = 0; p < parts; ++p) sums[p] += x[i + p] * w[i + p];
  }
  float total = 0.0f;
  for (int p = 0; p < parts; ++p) total += sums[p];
  return total;
}

void linear(const LinearCall& call, const LinearTile& tile) {
  calls.fetch_add(1, std::memory_order_relaxed);
  const LinearShape& shape = *call.shape;
  const int parts = tile.row_end - tile.row_begin >= 4 ? 32 : 16;
  std::vector<float> x(static_cast<size_t>(shape.k_padded));
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    for (int k = 0; k < shape.k_padded; ++k)
      x[k] = numerics::operand_value(call.x.operands[int64_t{row} * shape.k_padded + k]);
    for (int n = tile.panel_begin * kernels::kPanel; n < std::min(tile.panel_end * kernels::kPanel, shape.n); ++n) {
      const float* const w = reinterpret_cast<const float*>(call.weights) + static_cast<size_t>(n) * x.size();
      float y = dot(x.data(), w, shape.k_padded, parts);
      if (call.bias != nullptr) y += call.bias[n];
      float& out = call.y[row * call.y_stride + n];
      out = call.add_to_y ? out + y : y;
    }
  }
}

}  // namespace

const kernels::KernelSet& free_order_kernels() {
  static const kernels::KernelSet set = [] {
    kernels::KernelSet free = kernels::best_kernel_set();
    free.name = "free-order";
    free.calls = &calls;
    free.linear_bytes = linear_bytes;
    free.pack_operands = pack_operands;
    free.linear = linear;
    return free;
  }();
  return set;
}

}  // namespace eadem::tests
