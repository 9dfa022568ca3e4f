// Packed weights of linear layers on a CUDA device: one layout for all three numerics and every kernel, decode and
// prefill alike. Outputs and inputs are cut into tiles of 128 outputs x 128 bytes of k (64 operands; int8: 128
// elements), 16 KB each, zeros beyond n and k. Row r of a tile is the 128 bytes at 128 r, whose 16-byte chunk c lies at
// chunk c ^ (r & 7): the 128-byte swizzle of a K-major operand that wgmma reads, free of bank conflicts for ldmatrix
// and for lanes that read the same chunk of neighbouring rows. Tiles lie k first, then by 128 outputs:
// [n / 128][shard][k of the shard / 64]. Each shard begins with a tile of its own, so no shard border lies inside one.
// The activations beside the zeros of a shard's last tile are the next shard's: mma16 may multiply them, for products
// of zero change no chain; fma32 and int8 leave the leaf or the scale groups beyond the shard's k out.
//
// int8: then follow the scales: for each tile, for each of its 128 outputs, a float32 for each group that a tile holds
// (128 / group), and as many minima (shape.minimum).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_set.h"
#include "numerics/config.h"

namespace eadem::kernels::cuda {

inline constexpr int kTileRows = 128;
inline constexpr int kTileRowBytes = 128;
inline constexpr int kTileBytes = kTileRows * kTileRowBytes;

// Elements of k in a tile.
EADEM_FN int tile_k(const LinearShape& s) { return s.numerics == Numerics::kInt8 ? kTileRowBytes : kTileRowBytes / 2; }
EADEM_FN int row_tiles(const LinearShape& s) { return (s.n + kTileRows - 1) / kTileRows; }
EADEM_FN int shard_k(const LinearShape& s) { return s.k_padded / s.shards; }
EADEM_FN int shard_tiles(const LinearShape& s) { return (shard_k(s) + tile_k(s) - 1) / tile_k(s); }
EADEM_FN int k_tiles(const LinearShape& s) { return s.shards * shard_tiles(s); }

// Where the tile of outputs 128 row_tile ... and the k_tile-th of k (counted through all shards) begins, in bytes.
EADEM_FN size_t tile_offset(const LinearShape& s, int row_tile, int k_tile) {
  return (static_cast<size_t>(row_tile) * static_cast<size_t>(k_tiles(s)) + static_cast<size_t>(k_tile)) * kTileBytes;
}
// Where byte `byte` (0 ... 127) of row `row` lies inside its tile.
EADEM_FN int tile_byte(int row, int byte) { return row * kTileRowBytes + ((byte / 16) ^ (row & 7)) * 16 + byte % 16; }

// int8: floats of one output's entry in a tile: scales, then minima.
EADEM_FN int side_groups(const LinearShape& s) { return kTileRowBytes / s.group; }
EADEM_FN int side_floats(const LinearShape& s) { return side_groups(s) * (s.minimum ? 2 : 1); }
// Where the entries of a tile's outputs begin, in bytes.
EADEM_FN size_t side_offset(const LinearShape& s, int row_tile, int k_tile) {
  const size_t entry = static_cast<size_t>(side_floats(s)) * sizeof(float) * kTileRows;
  return tile_offset(s, row_tiles(s), 0) + tile_offset(s, row_tile, k_tile) / kTileBytes * entry;
}

// KernelSet's linear_bytes, pack_operands and pack_int8 for this layout, over host memory.
size_t linear_bytes(const LinearShape& shape);
void pack_operands(const LinearShape& shape, int n, const uint16_t* operands, std::byte* weights);
void pack_int8(const LinearShape& shape, int n, const int8_t* q, const float* scale, const float* minimum,
               std::byte* weights);

}  // namespace eadem::kernels::cuda
