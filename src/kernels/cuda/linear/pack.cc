#include <cstring>

#include "kernels/cuda/linear/layout.h"

namespace eadem::kernels::cuda {
namespace {

// Copies one output's row of k, `row_bytes` in all shards together, chunk by chunk.
void pack_row(const LinearShape& s, int n, const std::byte* row, size_t row_bytes, std::byte* weights) {
  const size_t shard_bytes = row_bytes / static_cast<size_t>(s.shards);
  for (int shard = 0; shard < s.shards; ++shard) {
    const std::byte* from = row + static_cast<size_t>(shard) * shard_bytes;
    std::byte* tile = weights + tile_offset(s, n / kTileRows, shard * shard_tiles(s));
    for (size_t byte = 0; byte < shard_bytes; byte += 16) {
      const size_t in_tile = byte % kTileRowBytes;
      if (byte > 0 && in_tile == 0) tile += kTileBytes;
      memcpy(tile + tile_byte(n % kTileRows, static_cast<int>(in_tile)), from + byte, 16);
    }
  }
}

}  // namespace

size_t linear_bytes(const LinearShape& shape) {
  const size_t tiles = tile_offset(shape, row_tiles(shape), 0);
  return shape.numerics == Numerics::kInt8 ? side_offset(shape, row_tiles(shape), 0) : tiles;
}

void pack_operands(const LinearShape& shape, int n, const uint16_t* operands, std::byte* weights) {
  pack_row(shape, n, reinterpret_cast<const std::byte*>(operands), static_cast<size_t>(shape.k_padded) * 2, weights);
}

void pack_int8(const LinearShape& shape, int n, const int8_t* q, const float* scale, const float* minimum,
               std::byte* weights) {
  pack_row(shape, n, reinterpret_cast<const std::byte*>(q), static_cast<size_t>(shape.k_padded), weights);
  const int per_shard = shape.groups() / shape.shards, per_tile = side_groups(shape);
  for (int g = 0; g < shape.groups(); ++g) {
    const int in_shard = g % per_shard, tile = g / per_shard * shard_tiles(shape) + in_shard / per_tile;
    auto* entry = reinterpret_cast<float*>(weights + side_offset(shape, n / kTileRows, tile)) +
                  n % kTileRows * side_floats(shape) + in_shard % per_tile;
    entry[0] = scale[g];
    if (shape.minimum) entry[per_tile] = minimum[g];
  }
}

}  // namespace eadem::kernels::cuda
