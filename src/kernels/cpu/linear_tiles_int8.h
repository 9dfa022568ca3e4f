// int8 linear layers by AMX tiles, over the panels of cpu/linear_int8.h. A tile of 16 rows takes a scale group of one
// panel at a time: the products are exact int32 sums in a tile, which AVX-512 scales and adds to the float32 chains of
// the 16 rows while the tiles are some groups ahead. Nibbles are expanded a group at a time on the way.
#pragma once

#include "kernels/cpu/linear.h"
#include "kernels/cpu/tiles.h"

namespace eadem::kernels::cpu {
namespace {

// Fewer rows than this are VNNI's: a tile costs as much for one row as for sixteen.
inline constexpr int kTileInt8Rows = 9;
// Groups that the tiles are ahead: their sums go through memory, and must have arrived.
inline constexpr int kGroupsAhead = 3;
static_assert((kGroupsAhead & (kGroupsAhead + 1)) == 0);
// Scale groups of a row that the scratch holds; a longer K is VNNI's too.
inline constexpr int kTileInt8Groups = 512;
// Bytes by which a stream of weights is asked for ahead of its use.
inline constexpr size_t kGroupBytesAhead = 4096;
// Panels that stay in the second-level cache while the rows of a call pass.
inline constexpr size_t kPanelBytesInCache = 256 * 1024;

struct TileInt8 {
  alignas(64) float scale[kTileInt8Groups * kTileRows];  // [group][row], zeros past the tile's rows
  alignas(64) float sum[kTileInt8Groups * kTileRows];    // of q, likewise
  alignas(64) int32_t dots[kGroupsAhead + 1][kTileRows * kPanel];
  alignas(64) std::byte expanded[kGroupsAhead + 1][numerics::kStoredGroup * kPanel];
  alignas(64) float sums[numerics::kMaxShards * kTileRows * kPanel];
};

// Tile 0: sums; 4, 5: x; 6, 7: weights.
EADEM_FN TileConfig int8_tiles(int rows, int group) {
  TileConfig config;
  for (const int tile : {0, 4, 5}) config.rows[tile] = static_cast<uint8_t>(rows);
  if (group == numerics::kStoredGroup) {
    config.row_bytes[4] = numerics::kStoredGroup;
    config.rows[6] = numerics::kStoredGroup / 4;
  }
  return config;
}

// A group's nibbles as the quads of a tile.
EADEM_LANE void expand_nibbles(const std::byte* from, int zero, std::byte* to) {
  const __m512i low = _mm512_set1_epi8(15), offset = _mm512_set1_epi8(static_cast<char>(zero));
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const __m512i line = _mm512_loadu_si512(from + i * kQuadBytes);
    const __m512i first = _mm512_and_si512(line, low), second = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
    _mm512_store_si512(to + 2 * i * kQuadBytes, _mm512_sub_epi8(first, offset));
    _mm512_store_si512(to + (2 * i + 1) * kQuadBytes, _mm512_sub_epi8(second, offset));
  }
}

// The dot products of one group: x at the first row's elements of it, stride bytes from row to row.
template <int kGroup, bool kNibbles>
EADEM_INLINE void int8_group_dots(TileInt8& scratch, int slot, const int8_t* x, size_t stride, const std::byte* w,
                                  int zero) {
  tile_zero<0>();
  if constexpr (kNibbles) {
    expand_nibbles(w, zero, scratch.expanded[slot]);
    w = scratch.expanded[slot];
  }
  tile_load<4>(x, stride), tile_load<6>(w), tile_int8<0, 4, 6>();
  if constexpr (kGroup == 2 * 64) tile_load<5>(x + 64, stride), tile_load<7>(w + kTileBytes), tile_int8<0, 5, 7>();
  tile_store<0>(scratch.dots[slot]);
}

// acc = fma(dot, scales, acc) for the rows of one group (and for its minimum).
EADEM_INLINE void int8_group_scale(const LinearShape& s, const TileInt8& scratch, int slot, int group,
                                   const std::byte* side, Vec* acc) {
  const int32_t* const dots = scratch.dots[slot];
  const float* const scale = scratch.scale + group * kTileRows;
  const Vec w_scale = load_scales(s, side, 0);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    acc[r] = fma(to_float(IVec::load(dots + r * kPanel)), mul(Vec(scale[r]), w_scale), acc[r]);
  }
  if (!s.minimum) return;
  const float* const sum = scratch.sum + group * kTileRows;
  const Vec minimum = load_scales(s, side + scale_bytes(s), 0);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) acc[r] = fma(Vec(sum[r]), mul(Vec(scale[r]), minimum), acc[r]);
}

// The chains of 16 rows and one panel over groups [begin, end), from 0, stored to sums [16 rows][16]. Not inlined, so
// that the compiler has all registers for it.
template <int kGroup, bool kNibbles>
[[gnu::noinline]] static void int8_tile_chains(const LinearShape& s, TileInt8& scratch, const int8_t* x,
                                               const std::byte* panel, int begin, int end, float* sums) {
  const size_t stride = static_cast<size_t>(s.k_padded), bytes = int8_group_bytes(s), quads = int8_quads_bytes(s);
  const int zero = nibble_zero(s);
  const std::byte* next = panel + static_cast<size_t>(begin) * bytes;
  const std::byte* side = next + quads;
  x += begin * kGroup;
  Vec acc[kTileRows];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) acc[r] = Vec(0.0f);
  for (int g = begin; g < end + kGroupsAhead; ++g) {
    if (g < end) {
#pragma GCC unroll 4
      for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(next + kGroupBytesAhead + line);
      int8_group_dots<kGroup, kNibbles>(scratch, g & kGroupsAhead, x, stride, next, zero);
      next += bytes, x += kGroup;
    }
    if (g < begin + kGroupsAhead) continue;
    int8_group_scale(s, scratch, (g - kGroupsAhead) & kGroupsAhead, g - kGroupsAhead, side, acc);
    side += bytes;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) acc[r].store(sums + r * kPanel);
}

// Scales and sums of `rows` rows from `row`, transposed.
EADEM_FN void gather_scales(const LinearCall& call, int row, int rows, TileInt8& scratch) {
  const int groups = call.shape->groups();
  for (int r = 0; r < kTileRows; ++r) {
    const int64_t from = static_cast<int64_t>(row + (r < rows ? r : 0)) * groups;
    for (int g = 0; g < groups; ++g) {
      scratch.scale[g * kTileRows + r] = r < rows ? call.x.scale[from + g] : 0.0f;
      scratch.sum[g * kTileRows + r] = r < rows ? static_cast<float>(call.x.sum[from + g]) : 0.0f;
    }
  }
}

template <int kGroup, bool kNibbles>
EADEM_FN void int8_tile_panels(const LinearCall& call, TileInt8& scratch, int row, int rows, int begin, int end) {
  const LinearShape& s = *call.shape;
  const int shard_groups = s.groups() / s.shards;
  const int8_t* x = call.x.q + static_cast<int64_t>(row) * s.k_padded;
  for (int panel = begin; panel < end; ++panel) {
    const std::byte* w = call.weights + static_cast<size_t>(panel) * int8_panel_bytes(s);
    for (int shard = 0; shard < s.shards; ++shard) {
      int8_tile_chains<kGroup, kNibbles>(s, scratch, x, w, shard * shard_groups, (shard + 1) * shard_groups,
                                         scratch.sums + shard * kTileRows * kPanel);
    }
    for (int r = 0; r < rows; ++r) {
      store_outputs(call, row + r, panel, scratch.sums + r * kPanel, kTileRows * kPanel);
    }
  }
}

EADEM_FN void int8_tile_rows(const LinearCall& call, TileInt8& scratch, int row, int rows, int begin, int end) {
  gather_scales(call, row, rows, scratch);
  if (call.shape->group != numerics::kStoredGroup) {
    int8_tile_panels<numerics::kQuantisedGroup, false>(call, scratch, row, rows, begin, end);
  } else if (has_nibbles(*call.shape)) {
    int8_tile_panels<numerics::kStoredGroup, true>(call, scratch, row, rows, begin, end);
  } else {
    int8_tile_panels<numerics::kStoredGroup, false>(call, scratch, row, rows, begin, end);
  }
}

EADEM_FN bool tiles_take(const LinearShape& s, int rows) {
  return rows >= kTileInt8Rows && s.groups() <= kTileInt8Groups;
}

EADEM_FN void tile_int8_linear(const LinearCall& call, const LinearTile& tile) {
  const LinearShape& s = *call.shape;
  TileInt8 scratch;
  const int group = static_cast<int>(kPanelBytesInCache / int8_panel_bytes(s)) + 1;
  for (int begin = tile.panel_begin; begin < tile.panel_end; begin += group) {
    const int end = begin + group < tile.panel_end ? begin + group : tile.panel_end;
    int configured = 0;
    for (int row = tile.row_begin; row < tile.row_end; row += kTileRows) {
      const int rows = tile.row_end - row < kTileRows ? tile.row_end - row : kTileRows;
      if (rows != configured) configure_tiles(int8_tiles(rows, s.group));
      configured = rows;
      memset(scratch.dots, 0, sizeof scratch.dots);
      int8_tile_rows(call, scratch, row, rows, begin, end);
    }
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
