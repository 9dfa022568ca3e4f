// Keys and values as tiles, for cpu/attention_tiles.h: keys as tiles of 16 keys x 32 elements, values transposed as
// tiles of 16 elements x 32 keys.
#pragma once

#include <algorithm>

#include "kernels/calls.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_lanes.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kKeyTiles = kKvBlock / kTileRows;
inline constexpr int kLaneWords = kTileRows * kRowLanes;  // 32-bit words of a tile whose lines are 16 lanes
inline constexpr int kTileOperands = kTileRows * numerics::kLeaf;
static_assert(kKvBlock == 2 * numerics::kLeaf);

// The other tree has no tiles: it keeps the panels of cpu/attention.h.
EADEM_FN bool has_tiles(const AttentionShape& shape) { return shape.numerics == Numerics::kFma32; }

EADEM_FN int key_leaves(const AttentionShape& shape) { return shape.head_padded / numerics::kLeaf; }
EADEM_FN int value_tiles(const AttentionShape& shape) { return (shape.head_size + kTileRows - 1) / kTileRows; }
EADEM_FN size_t tile_key_bytes(const AttentionShape& shape) {
  return static_cast<size_t>(kKeyTiles * key_leaves(shape)) * kTileBytes;
}

EADEM_FN size_t tile_kv_bytes(const AttentionShape& shape) {
  if (!has_tiles(shape)) return kv_bytes(shape);
  return tile_key_bytes(shape) + static_cast<size_t>(2 * value_tiles(shape)) * kTileBytes;
}

// Where a slot's keys and values begin, in operands from the block's start: leaves of keys and elements of values are a
// tile, or a line of one, apart.
EADEM_FN int tile_key_index(const AttentionShape& shape, int slot) {
  return slot / kTileRows * key_leaves(shape) * kTileOperands + slot % kTileRows * numerics::kLeaf;
}
EADEM_FN int tile_value_index(const AttentionShape& shape, int slot) {
  return (kKeyTiles * key_leaves(shape) + slot / numerics::kLeaf) * kTileOperands + slot % numerics::kLeaf;
}
EADEM_FN int tile_value_step(int element) {
  return element / kTileRows * 2 * kTileOperands + element % kTileRows * numerics::kLeaf;
}

EADEM_FN void write_keys(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k) {
  uint16_t* const keys = reinterpret_cast<uint16_t*>(block) + tile_key_index(shape, slot);
  for (int d = 0; d < shape.head_size; d += numerics::kLeaf) {
    std::copy_n(k + d, std::min(numerics::kLeaf, shape.head_size - d), keys + d / numerics::kLeaf * kTileOperands);
  }
}

EADEM_FN void tile_kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k,
                            const uint16_t* v) {
  if (!has_tiles(shape)) return kv_write(shape, block, slot, k, v);
  write_keys(shape, block, slot, k);
  uint16_t* const values = reinterpret_cast<uint16_t*>(block) + tile_value_index(shape, slot);
  for (int d = 0; d < shape.head_size; ++d) values[tile_value_step(d)] = v[d];
}

// Asks for a line that will be written.
EADEM_LANE void prefetch_to_write(const uint16_t* line) {
  asm volatile("prefetchw %0" ::"m"(*reinterpret_cast<const char (*)[64]>(line)));
}

// The lines of `count` slots from `slot` on, all of one leaf of 32.
EADEM_FN void prefetch_slots(const AttentionShape& shape, std::byte* block, int slot, int count) {
  auto* const operands = reinterpret_cast<uint16_t*>(block);
  for (int i = 0; i < count; ++i) {
    const uint16_t* const keys = operands + tile_key_index(shape, slot + i);
    for (int leaf = 0; leaf < key_leaves(shape); ++leaf) prefetch_to_write(keys + leaf * kTileOperands);
  }
  const uint16_t* const values = operands + tile_value_index(shape, slot);
  for (int d = 0; d < shape.head_size; ++d) prefetch_to_write(values + tile_value_step(d));
}

// Values of such slots: those of 16 elements make a tile's lines, of which the slots' part is stored. v: of the first
// slot; stride: from slot to slot.
EADEM_FN void write_values(const AttentionShape& shape, std::byte* block, int slot, int count, const uint16_t* v,
                           int64_t stride) {
  const int first = slot % numerics::kLeaf;
  const auto slots = static_cast<__mmask32>((~uint64_t{0} >> (64 - count)) << first);
  uint16_t* const leaf = reinterpret_cast<uint16_t*>(block) + tile_value_index(shape, slot - first);
  for (int d = 0; d < shape.head_size; d += kTileRows) {
    const int elements = std::min(kTileRows, shape.head_size - d);
    const auto some = static_cast<__mmask16>((1u << elements) - 1);
    const auto row = [&](int i) {
      if (i < 0 || i >= count) return _mm512_setzero_si512();
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, v + i * stride + d));
    };
    alignas(64) uint32_t pairs[kTileRows][kTileRows], lines[kTileRows][kTileRows];
    for (int j = 0; j < kTileRows; ++j) {
      const __m512i low = row(2 * j - first), high = row(2 * j + 1 - first);
      _mm512_store_si512(pairs[j], _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
    transpose_words(pairs, kTileRows, kTileRows, lines, kTileRows, kTileRows);
    for (int e = 0; e < elements; ++e) {
      _mm512_mask_storeu_epi16(leaf + tile_value_step(d + e), slots, _mm512_load_si512(lines[e]));
    }
  }
}

// As tile_kv_write for each position and head. What is written lies in as many lines as a head has elements, none of
// them in a cache: the lines of the next head are fetched beside the stores of this one, and for a single position all
// of them at once.
EADEM_FN void tile_kv_write_rows(const AttentionShape& shape, const KvView& view, int64_t position, int count,
                                 const uint16_t* k, const uint16_t* v) {
  count_call();
  const int64_t stride = int64_t{shape.kv_heads} * shape.head_size;
  while (count > 0) {
    const int slot = static_cast<int>(position % kKvBlock);
    const int part = std::min(count, numerics::kLeaf - slot % numerics::kLeaf);
    const auto block = [&](int head) { return view.block(position / kKvBlock, head); };
    const int ahead = !has_tiles(shape) ? 0 : part == 1 ? shape.kv_heads : 1;
    for (int head = 0; head < ahead; ++head) prefetch_slots(shape, block(head), slot, part);
    for (int head = 0; head < shape.kv_heads; ++head) {
      const uint16_t *keys = k + head * shape.head_size, *values = v + head * shape.head_size;
      if (!has_tiles(shape) || part == 1) {
        for (int i = 0; i < part; ++i, keys += stride, values += stride) {
          tile_kv_write(shape, block(head), slot + i, keys, values);
        }
        continue;
      }
      if (head + 1 < shape.kv_heads) prefetch_slots(shape, block(head + 1), slot, part);
      for (int i = 0; i < part; ++i) write_keys(shape, block(head), slot + i, keys + i * stride);
      write_values(shape, block(head), slot, part, values, stride);
    }
    position += part, count -= part, k += part * stride, v += part * stride;
  }
}

EADEM_FN void tile_kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
  if (!has_tiles(shape)) return kv_read(shape, block, slot, k, v);
  const auto* keys = reinterpret_cast<const uint16_t*>(block) + tile_key_index(shape, slot);
  for (int d = 0; d < shape.head_size; ++d) k[d] = keys[d / numerics::kLeaf * kTileOperands + d % numerics::kLeaf];
  const auto* values = reinterpret_cast<const uint16_t*>(block) + tile_value_index(shape, slot);
  for (int d = 0; d < shape.head_size; ++d) v[d] = values[tile_value_step(d)];
}

}  // namespace
}  // namespace eadem::kernels::cpu
