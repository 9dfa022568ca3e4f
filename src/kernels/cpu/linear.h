// Linear layers of the vectorised sets: packing, and the walk over a tile. The chains are cpu/linear_chain.h and
// cpu/linear_int8.h.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/linear_chain.h"
#include "kernels/cpu/linear_int8.h"
#include "kernels/cpu/operand_writer.h"
#include "numerics/formats.h"
#include "numerics/layer.h"
#include "numerics/shards.h"
#if defined(__AVX512BF16__)
#include "kernels/cpu/linear_pairs.h"
#endif

namespace eadem::kernels::cpu {
namespace {

// ---- Packed weights -------------------------------------------------------------------------------------------------

EADEM_FN size_t linear_panel_bytes(const LinearShape& s) {
  return s.numerics == Numerics::kInt8 ? int8_panel_bytes(s) : operand_panel_bytes(s.k_padded);
}

EADEM_FN size_t linear_bytes(const LinearShape& s) { return static_cast<size_t>(s.panels()) * linear_panel_bytes(s); }

EADEM_FN void pack_operands(const LinearShape& s, int n, const uint16_t* operands, std::byte* weights) {
  auto* panel = reinterpret_cast<uint16_t*>(weights + static_cast<size_t>(n / kPanel) * linear_panel_bytes(s));
#if defined(__AVX512BF16__)
  if (s.numerics == Numerics::kFma32) {
    for (int k = 0; k < s.k_padded; ++k) panel[pair_index(n % kPanel, k)] = operands[k];
    return;
  }
#endif
  for (int k = 0; k < s.k_padded; ++k) panel[operand_index(n % kPanel, k)] = operands[k];
}

EADEM_FN void pack_scales(const LinearShape& s, std::byte* side, size_t lane, float value) {
  if (s.stored == Int8Weights::kAny) {
    memcpy(side + lane * sizeof value, &value, sizeof value);
  } else {
    const uint16_t half = float16_of(value);
    memcpy(side + lane * sizeof half, &half, sizeof half);
  }
}

EADEM_FN void pack_int8(const LinearShape& s, int n, const int8_t* q, const float* scale, const float* minimum,
                        std::byte* weights) {
  std::byte* const panel = weights + static_cast<size_t>(n / kPanel) * linear_panel_bytes(s);
  const size_t lane = static_cast<size_t>(n % kPanel);
  const int zero = nibble_zero(s);
  for (int g = 0; g < s.groups(); ++g, q += s.group) {
    std::byte* const group = panel + int8_quads_at(s, g);
    if (has_nibbles(s)) {
      for (int k = 0; k < s.group; k += 8) {
        std::byte* const to = group + static_cast<size_t>(k / 8) * kQuadBytes + lane * 4;
        for (int j = 0; j < 4; ++j) to[j] = static_cast<std::byte>((q[k + j] + zero) | (q[k + 4 + j] + zero) << 4);
      }
    } else {
      for (int k = 0; k < s.group; k += 4) memcpy(group + static_cast<size_t>(k / 4) * kQuadBytes + lane * 4, q + k, 4);
    }
    std::byte* const side = panel + int8_side_at(s, g);
    pack_scales(s, side, lane, scale[g]);
    if (s.minimum) pack_scales(s, side + scale_bytes(s), lane, minimum[g]);
  }
}

// ---- One row of them ------------------------------------------------------------------------------------------------

// A row has four bytes of every cache line of its panel (of nibbles too).
EADEM_LANE uint32_t load_word(const std::byte* line) {
  uint32_t word;
  memcpy(&word, line, sizeof word);
  return word;
}

// row: its word in the panel's first line.
EADEM_FN void unpack_operands(const std::byte* row, int k, uint16_t* operands) {
  for (int i = 0; i < k; i += 2) memcpy(operands + i, row + operand_panel_bytes(i), sizeof(uint32_t));
}

#if defined(__AVX512BF16__)
// Of a layout by pairs (pair_index): the same line of both chains has four neighbours.
EADEM_FN void unpack_pairs(const std::byte* row, int k, uint16_t* operands) {
  constexpr size_t kChainBytes = operand_panel_bytes(numerics::kLeaf) / 2;
  for (int leaf = 0; leaf < k; leaf += numerics::kLeaf) {
    const std::byte* line = row + operand_panel_bytes(leaf);
    for (int i = leaf; i < leaf + numerics::kLeaf; i += 4, line += kPairBytes) {
      const uint32_t even = load_word(line), odd = load_word(line + kChainBytes);
      const uint32_t words[] = {even >> 16 | (odd & 0xffff0000u), (even & 0xffffu) | odd << 16};
      memcpy(operands + i, words, sizeof words);
    }
  }
}
#endif

EADEM_LANE Vec unpack_scale(const std::byte* side, size_t lane) {
  uint16_t half;
  memcpy(&half, side + lane * sizeof half, sizeof half);
  return Vec(numerics::float_of_half(half));
}

EADEM_FN void unpack_int8(const LinearShape& s, const std::byte* panel, size_t lane, uint16_t* operands) {
  constexpr int kGroup = numerics::kStoredGroup;
  alignas(64) uint32_t words[kGroup / 4];
  alignas(64) int8_t q[kGroup];
  alignas(64) float value[kGroup];
  const float zero = static_cast<float>(has_nibbles(s) ? nibble_zero(s) : 0);
  for (int g = 0; g < s.groups(); ++g, operands += kGroup) {
    const std::byte* const row = panel + int8_quads_at(s, g) + lane * 4;
    for (size_t i = 0; i < kGroup / 4; ++i) {
      words[i] = has_nibbles(s) ? load_word(row + i / 2 * kQuadBytes) >> 4 * (i % 2) & 0x0f0f0f0fu
                                : load_word(row + i * kQuadBytes);
    }
    memcpy(q, words, sizeof q);
    for (int i = 0; i < kGroup; ++i) value[i] = static_cast<float>(q[i]) - zero;
    const std::byte* const side = panel + int8_side_at(s, g);
    const Vec scale = unpack_scale(side, lane);
    const Vec minimum = s.minimum ? unpack_scale(side + scale_bytes(s), lane) : Vec(0.0f);
    for (int i = 0; i < kGroup; i += Vec::kWidth) {
      const Vec product = mul(scale, Vec::load(value + i));
      store_operands(operands + i, s.minimum ? add(product, minimum) : product);
    }
  }
}

EADEM_FN void unpack_row(const LinearShape& s, int n, const std::byte* weights, uint16_t* operands) {
  count_call();
  const std::byte* const panel = weights + static_cast<size_t>(n / kPanel) * linear_panel_bytes(s);
  const size_t lane = static_cast<size_t>(n % kPanel);
  if (s.numerics == Numerics::kInt8) return unpack_int8(s, panel, lane, operands);
#if defined(__AVX512BF16__)
  if (s.numerics == Numerics::kFma32) return unpack_pairs(panel + lane * 4, s.k_padded, operands);
#endif
  unpack_operands(panel + lane * 4, s.k_padded, operands);
}

// ---- The walk -------------------------------------------------------------------------------------------------------

// Scratch of one call, on the stack. A tile is cut into blocks of rows x panels whose sums, and a piece of whose x, fit
// it: x is expanded once for all panels of a block, and a panel is read once for all rows of it.
inline constexpr int kBlockRows = 24;
inline constexpr int kBlockOutputs = 192 * kPanel;  // rows x outputs of a block
inline constexpr int kBlockX = 16384;               // elements of x

// A rectangle of chains that are continued: rows x panels over elements [k, k + length) of all K.
struct Piece {
  int row, rows, panel, panels, k, length;
};

// What the walk needs of a tree: expand the rows of x over a piece's k, then continue chains over any pieces inside.
template <Numerics kTree>
struct OperandWalk {
  alignas(64) float value[kBlockX];
  alignas(64) float power[kTree == Numerics::kMma16 ? kBlockX : Vec::kWidth];
  int begin, length;  // the k that were expanded
  static constexpr int kPanels = kTree == Numerics::kMma16 ? 1 : kFmaPanels;

  EADEM_LANE static int unit(const LinearShape&) { return numerics::kLeaf; }
  EADEM_LANE void expand_rows(const LinearCall& call, const Piece& p) {
    begin = p.k, length = p.length;
    for (int r = 0; r < p.rows; ++r) {
      const uint16_t* from = call.x.operands + static_cast<int64_t>(p.row + r) * call.shape->k_padded + p.k;
      expand_operands<kTree>(from, length, value + r * length, power + (kTree == Numerics::kMma16 ? r * length : 0));
    }
  }
  EADEM_LANE void run(const LinearCall& call, const Piece& p, float* sums, int64_t stride) const {
    const size_t panel_bytes = linear_panel_bytes(*call.shape);
    const std::byte* first = call.weights + static_cast<size_t>(p.panel) * panel_bytes + operand_panel_bytes(p.k);
    const ChainRows x{value + (p.k - begin), power + (kTree == Numerics::kMma16 ? p.k - begin : 0), length};
    chains<kTree>(sums, stride, x, p.rows, first, panel_bytes, p.panels, kFmaPanels * panel_bytes, p.length);
  }
};

#if defined(__AVX512BF16__)
struct Fma32Walk {
  alignas(64) int32_t words[kBlockX / 2];
  int begin, length;
  static constexpr int kPanels = kFmaPanels;

  EADEM_LANE static int unit(const LinearShape&) { return numerics::kLeaf; }
  EADEM_LANE void expand_rows(const LinearCall& call, const Piece& p) {
    begin = p.k, length = p.length;
    for (int r = 0; r < p.rows; ++r) {
      const uint16_t* from = call.x.operands + static_cast<int64_t>(p.row + r) * call.shape->k_padded + p.k;
      pair_operands(from, length, words + r * (length / 2));
    }
  }
  EADEM_LANE void run(const LinearCall& call, const Piece& p, float* sums, int64_t stride) const {
    const size_t panel_bytes = linear_panel_bytes(*call.shape);
    const std::byte* first = call.weights + static_cast<size_t>(p.panel) * panel_bytes + operand_panel_bytes(p.k);
    pair_chains(sums, stride, words + (p.k - begin) / 2, length / 2, p.rows, first, panel_bytes, p.panels,
                kFmaPanels * panel_bytes, p.length);
  }
};
#else
using Fma32Walk = OperandWalk<Numerics::kFma32>;
#endif

struct Int8Walk {
  static constexpr int kPanels = kInt8Panels;

  EADEM_LANE static int unit(const LinearShape& s) { return s.group; }
  EADEM_LANE void expand_rows(const LinearCall&, const Piece&) {}  // int8 is read as it lies
  EADEM_LANE void run(const LinearCall& call, const Piece& p, float* sums, int64_t stride) const {
    const LinearShape& s = *call.shape;
    const size_t panel_bytes = linear_panel_bytes(s);
    const int group = p.k / s.group;
    const std::byte* const first = call.weights + static_cast<size_t>(p.panel) * panel_bytes;
    const int64_t side = static_cast<int64_t>(p.row) * s.groups() + group;
    const int8_t* const q = call.x.q + static_cast<int64_t>(p.row) * s.k_padded + p.k;
    const Int8Rows x{reinterpret_cast<const QuadWord*>(q), call.x.scale + side, call.x.sum + side, s.k_padded / 4,
                     s.groups()};
    int8_chains(sums, stride, x, p.rows, first, panel_bytes, p.panels, s, group, group + p.length / s.group);
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

// As store_outputs for a last panel that is partly filled: y and the bias go by way of copies, of which nothing past n
// reaches y.
EADEM_FN void store_some_outputs(const LinearCall& call, float* y, const float* bias, const float* sums,
                                 int64_t shard_stride) {
  const size_t bytes = static_cast<size_t>(call.shape->n % kPanel) * sizeof(float);
  float last_y[kPanel] = {}, last_bias[kPanel] = {};
  if (bias != nullptr) memcpy(last_bias, bias, bytes);
  if (call.add_to_y) memcpy(last_y, y, bytes);
  for (int i = 0; i < kPanel; i += Vec::kWidth) {
    Vec sum = shard_tree(sums + i, shard_stride, call.shape->shards);
    if (bias != nullptr) sum = add(sum, Vec::load(last_bias + i));
    if (call.add_to_y) sum = add(Vec::load(last_y + i), sum);
    sum.store(last_y + i);
  }
  memcpy(y, last_y, bytes);
}

// y = shard tree (+ bias), or y + that, for the outputs of one panel.
EADEM_FN void store_outputs(const LinearCall& call, int row, int panel, const float* sums, int64_t shard_stride) {
  const int first = panel * kPanel;
  float* const y = call.y + row * call.y_stride + first;
  const float* const bias = call.bias == nullptr ? nullptr : call.bias + first;
  if (first + kPanel > call.shape->n) return store_some_outputs(call, y, bias, sums, shard_stride);
  for (int i = 0; i < kPanel; i += Vec::kWidth) {
    Vec sum = shard_tree(sums + i, shard_stride, call.shape->shards);
    if (bias != nullptr) sum = add(sum, Vec::load(bias + i));
    if (call.add_to_y) sum = add(Vec::load(y + i), sum);
    sum.store(y + i);
  }
}

// Operands of SwiGLU of a row, of gates from `panel` on.
EADEM_FN void store_swiglu(const SwigluCall& swiglu, int row, int panel, int panels, const float* gates,
                           const float* ups) {
  uint16_t* const y = swiglu.y + row * swiglu.y_stride + panel * kPanel;
  OperandWriter writer;
  for (int i = 0; i < panels * kPanel; i += Vec::kWidth) {
    writer.put(y + i, numerics::swiglu32(Vec::load(gates + i), Vec::load(ups + i)));
  }
  if (!writer.good()) __atomic_store_n(swiglu.bad + row, true, __ATOMIC_RELAXED);  // other tiles have the same row
}

// A block of outputs: rows x panels, and, where `ups` is not 0, as many panels that many further on.
struct Block {
  int row, rows, panel, panels, ups;

  int parts() const { return ups == 0 ? 1 : 2; }
  int64_t width() const { return static_cast<int64_t>(panels) * parts() * kPanel; }  // of a row's sums
  int64_t outputs() const { return rows * width(); }
};

// The chains of a block whose x fits the scratch over all K. Panels come first, then their shards, so that decode reads
// the weights in the order in which they lie.
template <class Walk>
EADEM_FN void run_whole(const LinearCall& call, Walk& walk, const Block& block, float* sums) {
  const int shards = call.shape->shards, shard_k = call.shape->k_padded / shards;
  walk.expand_rows(call, {block.row, block.rows, 0, 0, 0, call.shape->k_padded});
  for (int part = 0; part < block.parts(); ++part) {
    const int first = block.panel + part * block.ups;
    for (int p = 0; p < block.panels; p += Walk::kPanels) {
      const int panels = block.panels - p < Walk::kPanels ? block.panels - p : Walk::kPanels;
      float* const to = sums + (part * block.panels + p) * kPanel;
      for (int shard = 0; shard < shards; ++shard) {
        walk.run(call, {block.row, block.rows, first + p, panels, shard * shard_k, shard_k},
                 to + shard * block.outputs(), block.width());
      }
    }
  }
}

// Otherwise x is expanded by equal pieces of each shard.
template <class Walk>
EADEM_FN void run_pieces(const LinearCall& call, Walk& walk, const Block& block, float* sums) {
  const LinearShape& s = *call.shape;
  const int unit = Walk::unit(s), shard_k = s.k_padded / s.shards, shard_units = shard_k / unit;
  const int most = kBlockX / block.rows / unit, pieces = (shard_units + most - 1) / most;
  const int piece_k = (shard_units + pieces - 1) / pieces * unit;
  for (int shard = 0; shard < s.shards; ++shard) {
    const int end = (shard + 1) * shard_k;
    for (int k = shard * shard_k; k < end; k += piece_k) {
      Piece piece{block.row, block.rows, block.panel, block.panels, k, end - k < piece_k ? end - k : piece_k};
      walk.expand_rows(call, piece);
      for (int part = 0; part < block.parts(); ++part, piece.panel += block.ups) {
        walk.run(call, piece, sums + shard * block.outputs() + part * block.panels * kPanel, block.width());
      }
    }
  }
}

// The sums of a block: [shards][rows][parts][panels * 16].
template <class Walk>
EADEM_FN void run_block(const LinearCall& call, Walk& walk, const Block& block, float* sums) {
  memset(sums, 0, static_cast<size_t>(block.outputs() * call.shape->shards) * sizeof(float));
  if (block.rows * static_cast<int64_t>(call.shape->k_padded) <= kBlockX) {
    run_whole(call, walk, block, sums);
  } else {
    run_pieces(call, walk, block, sums);
  }
}

// Calls finish(block, sums) for each block of a tile.
template <class Walk, class Finish>
EADEM_FN void linear_walk(const LinearCall& call, const LinearTile& tile, int ups, const Finish& finish) {
  Walk walk;
  alignas(64) float sums[numerics::kMaxShards * kBlockOutputs];
  const int rows_left = tile.row_end - tile.row_begin;
  const int block_rows = rows_left < kBlockRows ? rows_left : kBlockRows;
  const int block_panels = kBlockOutputs / kPanel / block_rows / (ups == 0 ? 1 : 2);
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += block_panels) {
    const int panels = tile.panel_end - panel < block_panels ? tile.panel_end - panel : block_panels;
    for (int row = tile.row_begin; row < tile.row_end; row += block_rows) {
      const int rows = tile.row_end - row < block_rows ? tile.row_end - row : block_rows;
      const Block block{row, rows, panel, panels, ups};
      run_block(call, walk, block, sums);
      finish(block, sums);
    }
  }
}

template <class Finish>
EADEM_FN void linear_blocks(const LinearCall& call, const LinearTile& tile, int ups, const Finish& finish) {
  count_call();
  switch (call.shape->numerics) {
    case Numerics::kMma16: return linear_walk<OperandWalk<Numerics::kMma16>>(call, tile, ups, finish);
    case Numerics::kFma32: return linear_walk<Fma32Walk>(call, tile, ups, finish);
    case Numerics::kInt8: return linear_walk<Int8Walk>(call, tile, ups, finish);
  }
}

EADEM_FN void linear(const LinearCall& call, const LinearTile& tile) {
  linear_blocks(call, tile, 0, [&call](const Block& block, const float* sums) {
    for (int r = 0; r < block.rows; ++r) {
      for (int p = 0; p < block.panels; ++p) {
        store_outputs(call, block.row + r, block.panel + p, sums + r * block.width() + p * kPanel, block.outputs());
      }
    }
  });
}

// Gates and ups of a block meet in its sums, so that neither goes to memory as float32. Operands of SwiGLU are padded
// to a leaf; here nobody writes padding.
EADEM_FN bool fuses_swiglu(const LinearShape& s, int) { return s.shards == 1 && s.n % (2 * numerics::kLeaf) == 0; }

EADEM_FN void linear_swiglu(const LinearCall& call, const SwigluCall& swiglu, const LinearTile& tile) {
  linear_blocks(call, tile, call.shape->n / 2 / kPanel, [&swiglu](const Block& block, const float* sums) {
    for (int r = 0; r < block.rows; ++r, sums += block.width()) {
      store_swiglu(swiglu, block.row + r, block.panel, block.panels, sums, sums + block.panels * kPanel);
    }
  });
}

}  // namespace
}  // namespace eadem::kernels::cpu
