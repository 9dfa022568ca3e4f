// fma32 linear layers by AMX tiles, over the panels of cpu/linear_chain.h, whose leaves of 1 KiB are tiles as they lie.
//
// Up to 64 rows a panel at a time passes through one tile register, and each weight is read from memory once, in the
// order in which they lie. More rows are blocks of 32 by two panels: four sums, each loaded tile used twice. A panel
// pair stays in the caches while the rows of the call pass.
#pragma once

#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_tiles_int8.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr size_t kLeafBytes = operand_panel_bytes(numerics::kLeaf);
inline constexpr int kStreamTiles = 4;                  // tiles of rows through which a panel streams
inline constexpr int kSquareRows = 2 * kTileRows;       // a block of many rows: two tiles of rows by two panels
inline constexpr int kSums = kSquareRows * 2 * kPanel;  // floats of a block's sums, of one shard
static_assert(kSums == kStreamTiles * kTileRows * kPanel);

// Bytes by which a stream of weights is asked for ahead of its use.
inline constexpr size_t kStreamAhead = 8192;

// ---- Few rows: a stream of panels ---------------------------------------------------------------------------------

// Tiles 0 ... 3: sums; 4, 5: x; 6: x of the last tile of rows; 7: weights. last_rows: of that tile, 1 to 16.
EADEM_FN TileConfig stream_tiles(int tiles, int last_rows) {
  TileConfig config;
  config.rows[tiles - 1] = config.rows[6] = static_cast<uint8_t>(last_rows);
  return config;
}

EADEM_LANE void prefetch_leaf(const std::byte* w) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kLeafBytes; i += 64) __builtin_prefetch(w + kStreamAhead + i);
}

// One panel's chains over `leaves` for kTiles tiles of rows, from 0, stored to sums [rows][16]. x: the first row's
// operands at the first leaf; stride: bytes from row to row.
template <int kTiles>
EADEM_INLINE void stream_chains(const std::byte* x, size_t stride, const std::byte* w, int leaves, float* sums) {
  constexpr int kLast = kTiles - 1;
  const size_t tile = kTileRows * stride;
  tile_zero<0>();
  if constexpr (kTiles > 1) tile_zero<1>();
  if constexpr (kTiles > 2) tile_zero<2>();
  if constexpr (kTiles > 3) tile_zero<3>();
  for (int i = 0; i < leaves; ++i, x += kTileRowBytes, w += kLeafBytes) {
    prefetch_leaf(w);
    tile_load<7>(w);
    if constexpr (kTiles > 1) tile_load<4>(x, stride), tile_bf16_leaf<0, 4, 7>();
    if constexpr (kTiles > 2) tile_load<5>(x + tile, stride), tile_bf16_leaf<1, 5, 7>();
    if constexpr (kTiles > 3) tile_load<4>(x + 2 * tile, stride), tile_bf16_leaf<2, 4, 7>();
    tile_load<6>(x + kLast * tile, stride), tile_bf16_leaf<kLast, 6, 7>();
  }
  constexpr int kTileFloats = kTileRows * kPanel;
  tile_store<0>(sums);
  if constexpr (kTiles > 1) tile_store<1>(sums + kTileFloats);
  if constexpr (kTiles > 2) tile_store<2>(sums + 2 * kTileFloats);
  if constexpr (kTiles > 3) tile_store<3>(sums + 3 * kTileFloats);
}

template <int kTiles>
EADEM_FN void stream_panels(const LinearCall& call, const LinearTile& tile, float* sums) {
  const LinearShape& s = *call.shape;
  const int rows = tile.row_end - tile.row_begin, leaves = s.k_padded / s.shards / numerics::kLeaf;
  const size_t stride = static_cast<size_t>(s.k_padded) * sizeof(uint16_t);
  const auto* x = reinterpret_cast<const std::byte*>(call.x.operands) + static_cast<size_t>(tile.row_begin) * stride;
  const std::byte* w = call.weights + static_cast<size_t>(tile.panel_begin) * operand_panel_bytes(s.k_padded);
  configure_tiles(stream_tiles(kTiles, rows - (kTiles - 1) * kTileRows));
  for (int panel = tile.panel_begin; panel < tile.panel_end; ++panel) {
    for (int shard = 0; shard < s.shards; ++shard, w += static_cast<size_t>(leaves) * kLeafBytes) {
      stream_chains<kTiles>(x + static_cast<size_t>(shard * leaves) * kTileRowBytes, stride, w, leaves,
                            sums + shard * kSums);
    }
    for (int r = 0; r < rows; ++r) store_outputs(call, tile.row_begin + r, panel, sums + r * kPanel, kSums);
  }
}

// ---- Many rows: squares ---------------------------------------------------------------------------------------------

// Chains of 32 rows by two panels over `leaves`, left in tiles 0, 1 (the first 16 rows), 2, 3. second: bytes from the
// first panel to the second.
EADEM_INLINE void square_chains(const std::byte* x, size_t stride, const std::byte* w, size_t second, int leaves) {
  const std::byte* const lower = x + kTileRows * stride;
  const std::byte* const right = w + second;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (size_t i = 0; i < static_cast<size_t>(leaves); ++i) {
    tile_load<6>(w + i * kLeafBytes);
    tile_load<4>(x + i * kTileRowBytes, stride);
    tile_bf16_leaf<0, 4, 6>();
    tile_load<7>(right + i * kLeafBytes);
    tile_bf16_leaf<1, 4, 7>();
    tile_load<5>(lower + i * kTileRowBytes, stride);
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

// Rows [row, row + 32) by the pair of panels at `panel`. The first `done` rows have been stored before: the last block
// overlaps the one before it, so that each has 32 rows. (A residual is added once.)
EADEM_FN void square_block(const LinearCall& call, int row, int done, int panel, float* sums) {
  const LinearShape& s = *call.shape;
  const size_t stride = static_cast<size_t>(s.k_padded) * sizeof(uint16_t);
  const size_t panel_bytes = operand_panel_bytes(s.k_padded);
  const int leaves = s.k_padded / s.shards / numerics::kLeaf;
  const auto* x = reinterpret_cast<const std::byte*>(call.x.operands) + static_cast<size_t>(row) * stride;
  const std::byte* w = call.weights + static_cast<size_t>(panel) * panel_bytes;
  for (int shard = 0; shard < s.shards; ++shard) {
    const size_t first = static_cast<size_t>(shard * leaves);
    square_chains(x + first * kTileRowBytes, stride, w + first * kLeafBytes, panel_bytes, leaves);
    const bool direct = s.shards == 1 && call.bias == nullptr && !call.add_to_y && (panel + 2) * kPanel <= s.n;
    if (direct) return store_square(call.y + row * call.y_stride + panel * kPanel, call.y_stride);
    store_square(sums + shard * kSums, 2 * kPanel);
  }
  for (int r = done; r < kSquareRows; ++r) {
    for (int p = 0; p < 2; ++p) {
      store_outputs(call, row + r, panel + p, sums + r * 2 * kPanel + p * kPanel, kSums);
    }
  }
}

EADEM_FN void squares(const LinearCall& call, const LinearTile& tile, float* sums) {
  configure_tiles();
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += 2) {
    for (int row = tile.row_begin; row < tile.row_end; row += kSquareRows) {
      const int first = row + kSquareRows <= tile.row_end ? row : tile.row_end - kSquareRows;
      square_block(call, first, row - first, panel, sums);
    }
  }
}

EADEM_FN void tile_fma32(const LinearCall& call, const LinearTile& tile) {
  alignas(64) float sums[numerics::kMaxShards * kSums];
  const int row_tiles = (tile.row_end - tile.row_begin + kTileRows - 1) / kTileRows;
  switch (row_tiles) {
    case 1: return stream_panels<1>(call, tile, sums);
    case 2: return stream_panels<2>(call, tile, sums);
    case 3: return stream_panels<3>(call, tile, sums);
    case 4: return stream_panels<4>(call, tile, sums);
    default: break;
  }
  // Squares take panels in pairs; a last panel without a partner takes its rows 64 at a time.
  LinearTile pairs = tile;
  pairs.panel_end -= (tile.panel_end - tile.panel_begin) % 2;
  squares(call, pairs, sums);
  for (int row = tile.row_begin; pairs.panel_end < tile.panel_end && row < tile.row_end;) {
    const int end = row + kStreamTiles * kTileRows;
    tile_fma32(call, {pairs.panel_end, tile.panel_end, row, end < tile.row_end ? end : tile.row_end});
    row = end;
  }
}

EADEM_FN void tile_linear(const LinearCall& call, const LinearTile& tile) {
  const LinearShape& s = *call.shape;
  if (s.numerics == Numerics::kFma32) {
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
