// KV blocks on a CUDA device: for a block of 64 positions and a KV head the image of K and then that of V. An image is
// ceil(head_padded / 64) tiles of 64 positions x 64 elements, 8 KB each. A tile's row is a position of 128 bytes, whose
// 16-byte chunk c lies at chunk c ^ (position & 7): the 128-byte swizzle that wgmma reads and that keeps ldmatrix free
// of bank conflicts. Elements beyond head_size are zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_set.h"
#include "numerics/config.h"

namespace eadem::kernels::cuda {

inline constexpr int kKvTile = 64;         // elements of a tile's row
inline constexpr int kKvTileBytes = 8192;  // 64 positions x 128 bytes
inline constexpr int kKvTileElements = 4096;

EADEM_FN int kv_tiles(int head_padded) { return (head_padded + kKvTile - 1) / kKvTile; }
// Bytes of one image; V begins there.
EADEM_FN int kv_image_bytes(int head_padded) { return kv_tiles(head_padded) * kKvTileBytes; }
// Where element `d` of the position in slot `slot` lies in its image, in operands.
EADEM_FN int kv_element(int slot, int d) {
  const int chunk = (d % kKvTile / 8) ^ (slot & 7);
  return d / kKvTile * kKvTileElements + slot * kKvTile + chunk * 8 + d % 8;
}

// KernelSet's kv_bytes, kv_write and kv_read for this layout, over host memory.
size_t kv_bytes(const AttentionShape& shape);
void kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k, const uint16_t* v);
void kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v);

}  // namespace eadem::kernels::cuda
