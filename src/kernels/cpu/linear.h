// Linear layers of the vectorised sets: packing, and the walk over a tile. The chains are cpu/linear_chain.h and cpu/linear_int8.h.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/linear_chain.h"
#include "kernels/cpu/linear_int8.h"
#include "numerics/shards.h"

namespace eadem::kernels::cpu {
namespace {

// ---- Packed weights --------------------------------------------------------------------------------------------------------

EADEM_FN size_t linear_panel_bytes(const LinearShape& s) {
  return s.numerics == Numerics::kInt8 ? int8_panel_bytes(s) : operand_panel_bytes(s.k_padded);
}

EADEM_FN size_t linear_bytes(const LinearShape& s) { return static_cast<size_t>(s.panels()) * linear_panel_bytes(s); }

EADEM_FN void pack_operands(const LinearShape& s, int n, const uint16_t* operands, std::byte* weights) {
  auto* panel = reinterpret_cast<uint16_t*>(weights + static_cast<size_t>(n / kPanel) * linear_panel_bytes(s));
  for (int k = 0; k < s.k_padded; ++k) panel[operand_index(n % kPanel, k)] = operands[k];
}

EADEM_FN void pack_int8(const LinearShape& s, int n, const int8_t* q, const float* scale, const float* minimum,
                        std::byte* weights) {
  std::byte* group = weights + static_cast<size_t>(n / kPanel) * linear_panel_bytes(s);
  const size_t lane = static_cast<size_t>(n % kPanel);
  for (int g = 0; g < s.groups(); ++g, group += int8_group_bytes(s), q += s.group) {
    for (int k = 0; k < s.group; k += 4) memcpy(group + static_cast<size_t>(k) * kPanel + lane * 4, q + k, 4);
    auto* side = reinterpret_cast<float*>(group + static_cast<size_t>(s.group) * kPanel);
    side[lane] = scale[g];
    if (s.minimum) side[kPanel + lane] = minimum[g];
  }
}

// ---- The walk --------------------------------------------------------------------------------------------------------------

// Scratch of one call, on the stack. A tile is cut into blocks of rows x panels whose sums, and a piece of whose x, fit it: x is
// expanded once for all panels of a block, and a panel is read once for all rows of it.
inline constexpr int kBlockRows = 24;
inline constexpr int kBlockOutputs = 192 * kPanel;  // rows x outputs of a block
inline constexpr int kBlockX = 12288;               // elements of x

// What the walk needs of a tree: expand rows [row, row + rows) of x from element k on, then continue their chains over length.
template <Numerics kTree>
struct OperandWalk {
  alignas(64) float value[kBlockX];
  alignas(64) float power[kTree == Numerics::kMma16 ? kBlockX : Vec::kWidth];

  EADEM_LANE static int unit(const LinearShape&) { return numerics::kLeaf; }
  EADEM_LANE void expand_rows(const LinearCall& call, int row, int rows, int k, int length) {
    for (int r = 0; r < rows; ++r) {
      const uint16_t* from = call.x.operands + static_cast<int64_t>(row + r) * call.shape->k_padded + k;
      expand_operands<kTree>(from, length, value + r * length, power + (kTree == Numerics::kMma16 ? r * length : 0));
    }
  }
  EADEM_LANE void run(const LinearCall& call, int, int rows, int k, int length, int panel, int panels, float* sums) {
    const size_t stride = linear_panel_bytes(*call.shape);
    const std::byte* first = call.weights + static_cast<size_t>(panel) * stride + operand_panel_bytes(k);
    chains<kTree>(sums, panels * kPanel, {value, power, length}, rows, first, stride, panels, length);
  }
};

struct Int8Walk {
  alignas(64) int32_t words[kBlockX / 4 * Dot::kWords];

  EADEM_LANE static int unit(const LinearShape& s) { return s.group; }
  EADEM_LANE void expand_rows(const LinearCall& call, int row, int rows, int k, int length) {
    for (int r = 0; r < rows; ++r) {
      const int8_t* from = call.x.q + static_cast<int64_t>(row + r) * call.shape->k_padded + k;
      expand_int8(from, length, words + r * (length / 4 * Dot::kWords));
    }
  }
  EADEM_LANE void run(const LinearCall& call, int row, int rows, int k, int length, int panel, int panels, float* sums) {
    const LinearShape& s = *call.shape;
    const size_t stride = linear_panel_bytes(s);
    const size_t first_group = static_cast<size_t>(k / s.group);
    const std::byte* first = call.weights + static_cast<size_t>(panel) * stride + first_group * int8_group_bytes(s);
    const int64_t side = static_cast<int64_t>(row) * s.groups() + static_cast<int64_t>(first_group);
    const Int8Rows x{words, call.x.scale + side, s.minimum ? call.x.sum + side : words, length / 4 * Dot::kWords, s.groups()};
    int8_chains(sums, panels * kPanel, x, rows, first, stride, panels, s, length / s.group);
  }
};

// numerics::shard_tree in each lane: shard s lies at sums + s * stride.
EADEM_FN Vec shard_tree(const float* sums, int64_t stride, int shards) {
  if (shards == 1) return Vec::load(sums);
  const Vec pair = add(Vec::load(sums), Vec::load(sums + stride));
  if (shards == 2) return pair;
  const Vec low = add(pair, add(Vec::load(sums + 2 * stride), Vec::load(sums + 3 * stride)));
  if (shards == 4) return low;
  return add(low, shard_tree(sums + 4 * stride, stride, 4));
}

// y = shard tree (+ bias), or y + that, for the outputs of one panel.
EADEM_FN void store_outputs(const LinearCall& call, int row, int panel, const float* sums, int64_t shard_stride) {
  const int first = panel * kPanel;
  float* y = call.y + row * call.y_stride + first;
  const float* bias = call.bias == nullptr ? nullptr : call.bias + first;
  // The last panel may be partly filled: its outputs go by way of copies, of which nothing past n reaches y.
  const int count = call.shape->n - first < kPanel ? call.shape->n - first : kPanel;
  float last_y[kPanel] = {}, last_bias[kPanel] = {};
  float* const out = count == kPanel ? y : last_y;
  if (count < kPanel) {
    if (bias != nullptr) bias = static_cast<const float*>(memcpy(last_bias, bias, static_cast<size_t>(count) * sizeof(float)));
    if (call.add_to_y) memcpy(last_y, y, static_cast<size_t>(count) * sizeof(float));
  }
  for (int i = 0; i < kPanel; i += Vec::kWidth) {
    Vec sum = shard_tree(sums + i, shard_stride, call.shape->shards);
    if (bias != nullptr) sum = add(sum, Vec::load(bias + i));
    if (call.add_to_y) sum = add(Vec::load(out + i), sum);
    sum.store(out + i);
  }
  if (count < kPanel) memcpy(y, last_y, static_cast<size_t>(count) * sizeof(float));
}

// One block: rows x panels of y.
template <class Walk>
EADEM_FN void linear_block(const LinearCall& call, Walk& walk, float* sums, int row, int rows, int panel, int panels) {
  const LinearShape& s = *call.shape;
  const int64_t outputs = static_cast<int64_t>(rows) * panels * kPanel;
  const int shard_k = s.k_padded / s.shards;
  const int unit = Walk::unit(s);
  const int piece = kBlockX / rows / unit * unit;
  memset(sums, 0, static_cast<size_t>(outputs * s.shards) * sizeof(float));
  for (int shard = 0; shard < s.shards; ++shard) {
    const int end = (shard + 1) * shard_k;
    for (int k = shard * shard_k; k < end; k += piece) {
      const int length = end - k < piece ? end - k : piece;
      walk.expand_rows(call, row, rows, k, length);
      walk.run(call, row, rows, k, length, panel, panels, sums + shard * outputs);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int p = 0; p < panels; ++p) {
      store_outputs(call, row + r, panel + p, sums + (static_cast<int64_t>(r) * panels + p) * kPanel, outputs);
    }
  }
}

template <class Walk>
EADEM_FN void linear_walk(const LinearCall& call, const LinearTile& tile) {
  Walk walk;
  alignas(64) float sums[numerics::kMaxShards * kBlockOutputs];
  const int rows_left = tile.row_end - tile.row_begin;
  const int block_rows = rows_left < kBlockRows ? rows_left : kBlockRows;
  const int block_panels = kBlockOutputs / kPanel / block_rows;
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += block_panels) {
    const int panels = tile.panel_end - panel < block_panels ? tile.panel_end - panel : block_panels;
    for (int row = tile.row_begin; row < tile.row_end; row += block_rows) {
      const int rows = tile.row_end - row < block_rows ? tile.row_end - row : block_rows;
      linear_block(call, walk, sums, row, rows, panel, panels);
    }
  }
}

EADEM_FN void linear(const LinearCall& call, const LinearTile& tile) {
  count_call();
  switch (call.shape->numerics) {
    case Numerics::kMma16: return linear_walk<OperandWalk<Numerics::kMma16>>(call, tile);
    case Numerics::kFma32: return linear_walk<OperandWalk<Numerics::kFma32>>(call, tile);
    case Numerics::kInt8: return linear_walk<Int8Walk>(call, tile);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
