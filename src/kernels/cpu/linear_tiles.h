// fma32 linear layers by AMX tiles, over the panels of cpu/linear_chain.h, whose leaves of 1 KiB are tiles as they lie.
//
// From 3 to 16 rows, four panels at a time stream past a tile of rows. More rows are blocks of 32 by two panels: four
// sums, each loaded tile used twice. Either way a weight is read from memory once: a panel pair stays in the caches
// while the rows of the call pass.
#pragma once

#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_tiles_int8.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr size_t kLeafBytes = operand_panel_bytes(numerics::kLeaf);
inline constexpr int kStreamPanels = 4;
// Fewer rows than this are left to FMA, over the same panels: it reads weights 6 to 8 % faster than tiles do.
inline constexpr int kTileFma32Rows = 3;
inline constexpr int kSquareRows = 2 * kTileRows;
inline constexpr int kSums = kSquareRows * 2 * kPanel;  // floats of a block's sums, of one shard
static_assert(kSums == kTileRows * kStreamPanels * kPanel);

// Where the chains of a shard begin: x at the block's first row, w at its first panel.
struct TileOperands {
  const std::byte* x;
  size_t x_stride;  // bytes from row to row
  const std::byte* w;
  size_t panel;  // bytes from panel to panel
  int leaves;
};

EADEM_FN TileOperands tile_operands(const LinearCall& call, int row, int panel, int shard) {
  const LinearShape& s = *call.shape;
  const size_t stride = static_cast<size_t>(s.k_padded) * sizeof(uint16_t);
  const size_t panel_bytes = operand_panel_bytes(s.k_padded);
  const int leaves = s.k_padded / s.shards / numerics::kLeaf;
  const size_t leaf = static_cast<size_t>(shard * leaves);
  return {
      reinterpret_cast<const std::byte*>(call.x.operands) + static_cast<size_t>(row) * stride + leaf * kTileRowBytes,
      stride, call.weights + static_cast<size_t>(panel) * panel_bytes + leaf * kLeafBytes, panel_bytes, leaves};
}

// ---- Few rows: a stream of panels ---------------------------------------------------------------------------------

// Bytes by which each stream of weights is asked for ahead of its use.
inline constexpr size_t kStreamAhead = 4096;

EADEM_LANE void prefetch_leaf(const std::byte* w) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kLeafBytes; i += 64) __builtin_prefetch(w + kStreamAhead + i);
}

// Chains of up to 16 rows over kPanels panels from 0, stored to sums [rows][kPanels * 16]. Tiles 0 ... 3: sums; 4: x;
// 5, 6, 7: weights.
template <int kPanels>
EADEM_INLINE void stream_chains(const TileOperands& at, float* sums) {
  const std::byte *x = at.x, *w = at.w;
  tile_zero<0>();
  if constexpr (kPanels > 1) tile_zero<1>();
  if constexpr (kPanels > 2) tile_zero<2>(), tile_zero<3>();
  for (int i = 0; i < at.leaves; ++i, x += kTileRowBytes, w += kLeafBytes) {
    tile_load<4>(x, at.x_stride);
    prefetch_leaf(w);
    tile_load<5>(w), tile_bf16_leaf<0, 4, 5>();
    if constexpr (kPanels > 1) {
      prefetch_leaf(w + at.panel);
      tile_load<6>(w + at.panel), tile_bf16_leaf<1, 4, 6>();
    }
    if constexpr (kPanels > 2) {
      prefetch_leaf(w + 2 * at.panel);
      tile_load<7>(w + 2 * at.panel), tile_bf16_leaf<2, 4, 7>();
      prefetch_leaf(w + 3 * at.panel);
      tile_load<5>(w + 3 * at.panel), tile_bf16_leaf<3, 4, 5>();
    }
  }
  constexpr size_t kStride = kPanels * kTileRowBytes;
  tile_store<0>(sums, kStride);
  if constexpr (kPanels > 1) tile_store<1>(sums + kPanel, kStride);
  if constexpr (kPanels > 2) tile_store<2>(sums + 2 * kPanel, kStride), tile_store<3>(sums + 3 * kPanel, kStride);
}

template <int kPanels>
EADEM_FN void stream_panels(const LinearCall& call, const LinearTile& tile, int panel, float* sums) {
  for (int shard = 0; shard < call.shape->shards; ++shard) {
    stream_chains<kPanels>(tile_operands(call, tile.row_begin, panel, shard), sums + shard * kSums);
  }
  for (int r = 0; r < tile.row_end - tile.row_begin; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      store_outputs(call, tile.row_begin + r, panel + p, sums + (r * kPanels + p) * kPanel, kSums);
    }
  }
}

EADEM_FN void stream(const LinearCall& call, const LinearTile& tile, float* sums) {
  TileConfig config;
  const auto rows = static_cast<uint8_t>(tile.row_end - tile.row_begin);
  for (const int i : {0, 1, 2, 3, 4}) config.rows[i] = rows;
  configure_tiles(config);
  int panel = tile.panel_begin;
  for (; panel + kStreamPanels <= tile.panel_end; panel += kStreamPanels) {
    stream_panels<kStreamPanels>(call, tile, panel, sums);
  }
  for (; panel + 2 <= tile.panel_end; panel += 2) stream_panels<2>(call, tile, panel, sums);
  for (; panel < tile.panel_end; ++panel) stream_panels<1>(call, tile, panel, sums);
}

// ---- Many rows: squares ---------------------------------------------------------------------------------------------

// Chains of two tiles of rows by two panels from 0, left in tiles 0, 1 (the first 16 rows), 2, 3.
EADEM_INLINE void square_chains(const TileOperands& at) {
  const std::byte* const lower = at.x + kTileRows * at.x_stride;
  const std::byte* const right = at.w + at.panel;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (size_t i = 0; i < static_cast<size_t>(at.leaves); ++i) {
    tile_load<6>(at.w + i * kLeafBytes);
    tile_load<4>(at.x + i * kTileRowBytes, at.x_stride);
    tile_bf16_leaf<0, 4, 6>();
    tile_load<7>(right + i * kLeafBytes);
    tile_bf16_leaf<1, 4, 7>();
    tile_load<5>(lower + i * kTileRowBytes, at.x_stride);
    tile_bf16_leaf<2, 5, 6>();
    tile_bf16_leaf<3, 5, 7>();
  }
}

EADEM_LANE void store_square(float* to, int64_t row) {  // row: floats from row to row
  float* const lower = to + kTileRows * row;
  const size_t stride = static_cast<size_t>(row) * sizeof(float);
  tile_store<0>(to, stride);
  tile_store<1>(to + kPanel, stride);
  tile_store<2>(lower, stride);
  tile_store<3>(lower + kPanel, stride);
}

// Rows [row, row + rows) by the pair of panels at `panel`; the tiles are configured for so many rows. The first `done`
// rows have been stored before: the last block of a call overlaps the one before it, so that each has 32 rows. (A
// residual is added once.)
EADEM_FN void square_block(const LinearCall& call, int row, int rows, int done, int panel, float* sums) {
  const LinearShape& s = *call.shape;
  for (int shard = 0; shard < s.shards; ++shard) {
    square_chains(tile_operands(call, row, panel, shard));
    const bool direct = s.shards == 1 && call.bias == nullptr && !call.add_to_y && (panel + 2) * kPanel <= s.n;
    if (direct) return store_square(call.y + row * call.y_stride + panel * kPanel, call.y_stride);
    store_square(sums + shard * kSums, 2 * kPanel);
  }
  for (int r = done; r < rows; ++r) {
    for (int p = 0; p < 2; ++p) {
      store_outputs(call, row + r, panel + p, sums + r * 2 * kPanel + p * kPanel, kSums);
    }
  }
}

EADEM_FN void squares(const LinearCall& call, const LinearTile& tile, float* sums) {
  const int rows = tile.row_end - tile.row_begin, block = rows < kSquareRows ? rows : kSquareRows;
  TileConfig config;
  for (const int i : {2, 3, 5}) config.rows[i] = static_cast<uint8_t>(block - kTileRows);
  configure_tiles(config);
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += 2) {
    for (int row = tile.row_begin; row < tile.row_end; row += block) {
      const int first = row + block <= tile.row_end ? row : tile.row_end - block;
      square_block(call, first, block, row - first, panel, sums);
    }
  }
}

EADEM_FN void tile_fma32(const LinearCall& call, const LinearTile& tile) {
  alignas(64) float sums[numerics::kMaxShards * kSums];
  if (tile.row_end - tile.row_begin <= kTileRows) return stream(call, tile, sums);
  LinearTile part = tile;
  part.panel_end -= (tile.panel_end - tile.panel_begin) % 2;
  squares(call, part, sums);
  if (part.panel_end == tile.panel_end) return;
  // A last panel without a partner streams past 16 rows at a time.
  part.panel_begin = part.panel_end, part.panel_end = tile.panel_end;
  for (; part.row_begin < tile.row_end; part.row_begin = part.row_end) {
    part.row_end = part.row_begin + kTileRows < tile.row_end ? part.row_begin + kTileRows : tile.row_end;
    stream(call, part, sums);
  }
}

EADEM_FN void tile_linear(const LinearCall& call, const LinearTile& tile) {
  const LinearShape& s = *call.shape;
  if (s.numerics == Numerics::kFma32 && tile.row_end - tile.row_begin >= kTileFma32Rows) {
    count_call();
    tile_fma32(call, tile);
  } else if (s.numerics == Numerics::kInt8 && tiles_take(s, tile.row_end - tile.row_begin)) {
    count_call();
    tile_int8_linear(call, tile);
  } else {
    linear(call, tile);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
