// Intel AMX's tile registers: eight of them, each 16 rows of 64 bytes. Compiled for the AMX set alone.
//
// A kernel calls configure_tiles() before its first tile and expects nothing of the tiles' contents. The wrappers tell
// the compiler that memory is read and written, which the intrinsics of GCC 12 do not: without, it drops or moves the
// stores that a tile is loaded from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/vec.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr size_t kTileRowBytes = 64;
inline constexpr size_t kTileBytes = kTileRows * kTileRowBytes;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {kTileRowBytes, kTileRowBytes, kTileRowBytes, kTileRowBytes,
                            kTileRowBytes, kTileRowBytes, kTileRowBytes, kTileRowBytes};
  uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};
static_assert(sizeof(TileConfig) == 64);

// The calling thread keeps the configuration until it loads another. Without an argument: all eight tiles whole.
EADEM_LANE void configure_tiles(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
EADEM_LANE void configure_tiles() {
  static constexpr TileConfig kWhole;
  configure_tiles(kWhole);
}

// 16 rows of 64 bytes, `stride` bytes apart.
template <int kTile>
EADEM_LANE void tile_load(const void* rows, size_t stride = kTileRowBytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}
// The same for rows that are not read again soon: they do not displace what the first-level cache holds.
template <int kTile>
EADEM_LANE void tile_load_once(const void* rows, size_t stride = kTileRowBytes) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
EADEM_LANE void tile_store(void* rows, size_t stride = kTileRowBytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
EADEM_LANE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

// sum[m][n] += one leaf of fma32: a is [16 m][32 k] bf16, b [16 pairs of k][16 n][2].
template <int kSum, int kA, int kB>
EADEM_LANE void tile_bf16_leaf() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

// sum[m][n] += products of signed bytes, exactly: a is [16 m][64 k], b [16 quads of k][16 n][4], or shorter in k.
template <int kSum, int kA, int kB>
EADEM_LANE void tile_int8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace eadem::kernels::cpu
