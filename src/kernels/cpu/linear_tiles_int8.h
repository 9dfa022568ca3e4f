// int8 linear layers by AMX tiles, over the panels of cpu/linear_int8.h. A tile of 16 rows takes a scale group of one
// panel at a time: the products are exact int32 sums in a tile, which AVX-512 scales and adds to the float32 chains of
// the 16 rows while the tiles are some groups ahead, from the first panel of a call to its last. Where more than one
// tile of rows follows, nibbles are expanded to bytes once for all of them; otherwise a group at a time on the way.
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
// Panels that stay in the second-level cache while the rows of a call pass: at least one of any K that tiles take.
inline constexpr size_t kPanelBytesInCache = kTileInt8Groups * (numerics::kStoredGroup + 2 * sizeof(uint16_t)) * kPanel;
// Outputs of gates, and of their ups, that meet in the scratch.
inline constexpr int kGatePanels = 16;

struct TileInt8 {
  alignas(64) float scale[kTileInt8Groups * kTileRows];  // [group][row], zeros past the tile's rows
  alignas(64) float sum[kTileInt8Groups * kTileRows];    // of q, likewise
  alignas(64) float dots[kGroupsAhead + 1][kTileRows * kPanel];
  alignas(64) std::byte expanded[kGroupsAhead + 1][numerics::kStoredGroup * kPanel];
  alignas(64) float sums[numerics::kMaxShards * kTileRows * kPanel];
  alignas(64) float gate_up[kTileRows * 2 * kGatePanels * kPanel];
  alignas(64) std::byte panels[kPanelBytesInCache];  // nibbles as bytes, with their scales
};

// Tiles 0, 1: sums; 4, 5: x; 6, 7: weights.
EADEM_FN TileConfig int8_tiles(int rows, int group) {
  TileConfig config;
  for (const int tile : {0, 1, 4, 5}) config.rows[tile] = static_cast<uint8_t>(rows);
  if (group == numerics::kStoredGroup) {
    config.row_bytes[4] = numerics::kStoredGroup;
    config.rows[6] = numerics::kStoredGroup / 4;
  }
  return config;
}

// A group's nibbles as the quads of a tile.
EADEM_LANE void expand_nibble_quads(const std::byte* from, int zero, std::byte* to) {
  const __m512i low = _mm512_set1_epi8(15), offset = _mm512_set1_epi8(static_cast<char>(zero));
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    const __m512i line = _mm512_loadu_si512(from + i * kQuadBytes);
    const __m512i first = _mm512_and_si512(line, low), second = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
    _mm512_storeu_si512(to + 2 * i * kQuadBytes, _mm512_sub_epi8(first, offset));
    _mm512_storeu_si512(to + (2 * i + 1) * kQuadBytes, _mm512_sub_epi8(second, offset));
  }
}

// Tiles of sums start from the bits of this float: a sum s, far below 2^22 in magnitude, leaves the bits of the float
// kFloatBase + s. One addition gives s as a float, on a port that tile products leave free: a conversion does not.
inline constexpr float kFloatBase = 0x1.8p23f;
alignas(64) inline constexpr float kFloatBases[kPanel] = {kFloatBase, kFloatBase, kFloatBase, kFloatBase,  //
                                                          kFloatBase, kFloatBase, kFloatBase, kFloatBase,  //
                                                          kFloatBase, kFloatBase, kFloatBase, kFloatBase,  //
                                                          kFloatBase, kFloatBase, kFloatBase, kFloatBase};

// The dot products of one group, left in tile kSum: x at the first row's elements of it, stride bytes from row to row.
template <int kSum, int kGroup, bool kNibbles>
EADEM_INLINE void int8_tile_dots(std::byte* expanded, const int8_t* x, size_t stride, const std::byte* w, int zero) {
  tile_load<kSum>(kFloatBases, 0);
  if constexpr (kNibbles) {
    expand_nibble_quads(w, zero, expanded);
    w = expanded;
  }
  tile_load<4>(x, stride), tile_load<6>(w), tile_int8<kSum, 4, 6>();
  if constexpr (kGroup == 2 * 64) tile_load<5>(x + 64, stride), tile_load<7>(w + kTileBytes), tile_int8<kSum, 5, 7>();
}

// acc = fma(dot, scales, acc) for the rows of one group (and for its minimum).
template <bool kMinimum>
EADEM_INLINE void int8_tile_scale(const LinearShape& s, const TileInt8& scratch, int slot, int group,
                                  const std::byte* side, Vec* acc) {
  const float* const dots = scratch.dots[slot];
  const float* const scale = scratch.scale + group * kTileRows;
  const Vec w_scale = load_scales(s, side, 0);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    acc[r] = fma(sub(Vec::load(dots + r * kPanel), Vec(kFloatBase)), mul(Vec(scale[r]), w_scale), acc[r]);
  }
  if constexpr (!kMinimum) return;
  const float* const sum = scratch.sum + group * kTileRows;
  const Vec minimum = load_scales(s, side + scale_bytes(s), 0);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) acc[r] = fma(Vec(sum[r]), mul(Vec(scale[r]), minimum), acc[r]);
}

// Scales and sums of `rows` rows from `row`, transposed.
EADEM_FN void gather_scales(const LinearCall& call, int row, int rows, TileInt8& scratch) {
  const int groups = call.shape->groups();
  for (int r = 0; r < kTileRows; ++r) {
    const int64_t from = static_cast<int64_t>(row + (r < rows ? r : 0)) * groups;
    for (int g = 0; g < groups; ++g) {
      scratch.scale[g * kTileRows + r] = r < rows ? call.x.scale[from + g] : 0.0f;
    }
    for (int g = 0; call.shape->minimum && g < groups; ++g) {
      scratch.sum[g * kTileRows + r] = r < rows ? static_cast<float>(call.x.sum[from + g]) : 0.0f;
    }
  }
}

[[gnu::noinline]] static void int8_finish_panel(const LinearCall& call, const float* sums, int row, int rows,
                                                int panel) {
  for (int r = 0; r < rows; ++r) store_outputs(call, row + r, panel, sums + r * kPanel, kTileRows * kPanel);
}

// Panels [begin, end) that a tile of rows meets.
struct PanelRun {
  const std::byte* weights;  // of panel `begin`
  int begin, end;
  bool cold;                      // not in a cache yet
  const std::byte *ahead, *stop;  // of the panels that come next: fetched into the second-level cache, a line a group
};

// The groups of all panels, which lie behind each other, for one tile of rows: the tiles are ahead of AVX-512 from the
// first panel's first group to the last panel's last, whatever chains begin and end on the way.
template <int kGroup, bool kNibbles, bool kMinimum>
class Int8Panels {
 public:
  EADEM_LANE Int8Panels(const LinearCall& call, TileInt8& scratch, int row, int rows, const PanelRun& run)
      : call_(call),
        scratch_(scratch),
        shape_(*call.shape),
        row_(row),
        rows_(rows),
        groups_(shape_.groups()),
        shard_groups_(groups_ / shape_.shards),
        total_((run.end - run.begin) * groups_),
        zero_(nibble_zero(shape_)),
        x_(call.x.q + static_cast<int64_t>(row) * shape_.k_padded),
        quads_(GroupCursor::of_weights(shape_, run.weights)),
        side_(GroupCursor::of_scales(shape_, run.weights)),
        ahead_(run.ahead),
        stop_(run.stop),
        panel_(run.begin),
        left_(shard_groups_),
        plain_(rows == kTileRows && shape_.shards == 1 && call.bias == nullptr && !call.add_to_y &&
               run.end * kPanel <= shape_.n),
        sums_(scratch.sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) acc_[r] = Vec(0.0f);
  }

  // Not inlined, so that the compiler has all registers for it.
  template <bool kCold>
  [[gnu::noinline]] static void walk(const LinearCall& call, TileInt8& scratch, int row, int rows,
                                     const PanelRun& run) {
    Int8Panels panels(call, scratch, row, rows, run);
    for (int i = 0; i < panels.total_ + kGroupsAhead; i += 2) {
      panels.template step<0, kCold>(i);
      panels.template step<1, kCold>(i + 1);
    }
  }

 private:
  // Multiplies group i, stores the dots of i - 1 (a store right behind its product would wait for it), and scales those
  // of i - kGroupsAhead. kTile: i % 2.
  template <int kTile, bool kCold>
  EADEM_LANE void step(int i) {
    if (i < total_) {
      if constexpr (kCold) {
#pragma GCC unroll 4
        for (size_t line = 0; line < quads_.pair / 2; line += 64)
          __builtin_prefetch(quads_.at + kGroupBytesAhead + line);
      } else if (ahead_ < stop_) {
        __builtin_prefetch(ahead_, 0, 2);
        ahead_ += 64;
      }
      int8_tile_dots<kTile, kGroup, kNibbles>(scratch_.expanded[i & kGroupsAhead], x_ + quads_.group * kGroup,
                                              static_cast<size_t>(shape_.k_padded), quads_.at, zero_);
      quads_.advance();
    }
    if (i > 0 && i <= total_) tile_store<1 - kTile>(scratch_.dots[(i - 1) & kGroupsAhead]);
    if (i < kGroupsAhead || i >= total_ + kGroupsAhead) return;
    int8_tile_scale<kMinimum>(shape_, scratch_, (i - kGroupsAhead) & kGroupsAhead, side_.group, side_.at, acc_);
    const bool last = side_.advance();
    if (--left_ == 0) end_chains(last);
  }

  EADEM_LANE void end_chains(bool last) {
    left_ = shard_groups_;
    if (plain_) {
      float* const y = call_.y + row_ * call_.y_stride + panel_++ * kPanel;
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) acc_[r].store(y + r * call_.y_stride);
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) acc_[r].store(sums_ + r * kPanel);
      sums_ += kTileRows * kPanel;
      if (last) {
        int8_finish_panel(call_, scratch_.sums, row_, rows_, panel_++);
        sums_ = scratch_.sums;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) acc_[r] = Vec(0.0f);
  }

  const LinearCall& call_;
  TileInt8& scratch_;
  const LinearShape shape_;
  const int row_, rows_, groups_, shard_groups_, total_, zero_;
  const int8_t* const x_;
  GroupCursor quads_, side_;  // the group that is multiplied next, and the one that is scaled next
  const std::byte *ahead_, *const stop_;
  int panel_, left_;  // the panel whose chains grow, and the groups that are left of them
  const bool plain_;  // a chain is an output: no shards, bias or residual, nothing that is partly filled
  float* sums_;
  Vec acc_[kTileRows];
};

template <int kGroup, bool kNibbles, bool kMinimum>
EADEM_FN void int8_tile_panels(const LinearCall& call, TileInt8& scratch, int row, int rows, const PanelRun& run) {
  if (run.cold) {
    Int8Panels<kGroup, kNibbles, kMinimum>::template walk<true>(call, scratch, row, rows, run);
  } else {
    Int8Panels<kGroup, kNibbles, kMinimum>::template walk<false>(call, scratch, row, rows, run);
  }
}

// One tile of rows. Weights of any group may have a minimum.
template <bool kMinimum>
EADEM_FN void int8_tile_weights(const LinearCall& call, TileInt8& scratch, int row, int rows, const PanelRun& run) {
  constexpr int kLarge = numerics::kQuantisedGroup, kSmall = numerics::kStoredGroup;
  if (call.shape->group != kSmall) return int8_tile_panels<kLarge, false, kMinimum>(call, scratch, row, rows, run);
  if (has_nibbles(*call.shape)) return int8_tile_panels<kSmall, true, kMinimum>(call, scratch, row, rows, run);
  int8_tile_panels<kSmall, false, kMinimum>(call, scratch, row, rows, run);
}
EADEM_FN void int8_tile_rows(const LinearCall& call, TileInt8& scratch, int row, int rows, const PanelRun& run) {
  if (call.shape->minimum) return int8_tile_weights<true>(call, scratch, row, rows, run);
  int8_tile_weights<false>(call, scratch, row, rows, run);
}

// Panels of nibbles as those of bytes with float16 scales.
EADEM_FN void expand_panels(const LinearShape& s, const std::byte* from, int panels, std::byte* to) {
  LinearShape bytes = s;
  bytes.stored = Int8Weights::kHalves;
  for (int panel = 0; panel < panels; ++panel, from += int8_panel_bytes(s), to += int8_panel_bytes(bytes)) {
    for (int g = 0; g < s.groups(); ++g) {
      const std::byte* const quads = from + int8_quads_at(s, g);
#pragma GCC unroll 4
      for (size_t line = 0; line < int8_pair_bytes(s) / 2; line += 64) {
        __builtin_prefetch(quads + kGroupBytesAhead + line);
      }
      expand_nibble_quads(quads, nibble_zero(s), to + int8_quads_at(bytes, g));
      memcpy(to + int8_side_at(bytes, g), from + int8_side_at(s, g), int8_side_bytes(s));
    }
  }
}

// How the rows of a call meet its panels: those of nibbles as bytes, where that is worth it.
struct Int8View {
  LinearShape shape;
  bool expanded;

  EADEM_LANE Int8View(const LinearShape& s, int rows)
      : shape(s), expanded(has_nibbles(s) && s.group == numerics::kStoredGroup && rows > kTileRows) {
    if (expanded) shape.stored = Int8Weights::kHalves;
  }
  // Panels that are taken together.
  EADEM_LANE int panels() const {
    const size_t panels = kPanelBytesInCache / int8_panel_bytes(shape);
    return panels < 1 ? 1 : static_cast<int>(panels);
  }
  EADEM_LANE const std::byte* weights(const LinearCall& call, int panel, int count, std::byte* room) const {
    const std::byte* const stored = call.weights + static_cast<size_t>(panel) * int8_panel_bytes(*call.shape);
    if (!expanded) return stored;
    expand_panels(*call.shape, stored, count, room);
    return room;
  }
};

EADEM_FN bool tiles_take(const LinearShape& s, int rows) {
  return rows >= kTileInt8Rows && s.groups() <= kTileInt8Groups;
}

// What a tile of rows meets of panels [begin, end) at `weights`; the call goes on to panel `last`. Of the weights that
// come next each tile of rows but the first fetches its share.
EADEM_FN PanelRun panel_run(const LinearTile& tile, int row, const LinearShape& s, const std::byte* weights, int begin,
                            int end, int last, bool expanded) {
  const int number = (row - tile.row_begin) / kTileRows, others = (tile.row_end - tile.row_begin - 1) / kTileRows;
  PanelRun run{weights, begin, end, number == 0 && !expanded, nullptr, nullptr};
  const int next = end - begin < last - end ? end - begin : last - end;
  if (expanded || number == 0 || next <= 0) return run;
  const size_t share = (static_cast<size_t>(next) * int8_panel_bytes(s) / static_cast<size_t>(others) + 63) / 64 * 64;
  run.ahead =
      weights + static_cast<size_t>(end - begin) * int8_panel_bytes(s) + static_cast<size_t>(number - 1) * share;
  run.stop = run.ahead + share;
  return run;
}

// Calls take(row, rows) for the tiles of rows of a call, with the tiles configured for them and their scales in place.
template <class Take>
EADEM_FN void int8_row_tiles(const LinearCall& call, const LinearTile& tile, TileInt8& scratch, const Take& take) {
  int configured = 0;
  for (int row = tile.row_begin; row < tile.row_end; row += kTileRows) {
    const int rows = tile.row_end - row < kTileRows ? tile.row_end - row : kTileRows;
    if (rows != configured) {
      configure_tiles(int8_tiles(rows, call.shape->group));
      memset(scratch.dots, 0, sizeof scratch.dots);  // rows past the tile's are scaled with the others, as zeros
      configured = rows;
    }
    gather_scales(call, row, rows, scratch);
    take(row, rows);
  }
}

EADEM_FN void tile_int8_linear(const LinearCall& call, const LinearTile& tile) {
  const Int8View view(*call.shape, tile.row_end - tile.row_begin);
  LinearCall part = call;
  part.shape = &view.shape;
  TileInt8 scratch;
  const int group = view.panels();
  for (int begin = tile.panel_begin; begin < tile.panel_end; begin += group) {
    const int end = begin + group < tile.panel_end ? begin + group : tile.panel_end;
    const std::byte* const weights = view.weights(call, begin, end - begin, scratch.panels);
    int8_row_tiles(part, tile, scratch, [&](int row, int rows) {
      int8_tile_rows(part, scratch, row, rows,
                     panel_run(tile, row, view.shape, weights, begin, end, tile.panel_end, view.expanded));
    });
  }
}

EADEM_FN bool tiles_fuse_swiglu(const LinearShape& s, int rows) {
  return s.numerics == Numerics::kInt8 && tiles_take(s, rows) && 2 * s.groups() <= kTileInt8Groups;
}

// Gates and ups of a tile of rows meet in the scratch, so that neither goes to memory as float32.
EADEM_FN void tile_int8_swiglu(const LinearCall& call, const SwigluCall& swiglu, const LinearTile& tile) {
  const Int8View view(*call.shape, tile.row_end - tile.row_begin);
  const int ups = call.shape->n / 2 / kPanel;
  TileInt8 scratch;
  LinearCall part = call;
  part.shape = &view.shape;
  const int half = view.panels() / 2, group = half < 1 ? 1 : half < kGatePanels ? half : kGatePanels;
  for (int begin = tile.panel_begin; begin < tile.panel_end; begin += group) {
    const int count = tile.panel_end - begin < group ? tile.panel_end - begin : group;
    const std::byte* const gate = view.weights(call, begin, count, scratch.panels);
    const std::byte* const up = view.weights(
        call, ups + begin, count, scratch.panels + static_cast<size_t>(count) * int8_panel_bytes(view.shape));
    int8_row_tiles(call, tile, scratch, [&](int row, int rows) {
      part.x.q = call.x.q + static_cast<int64_t>(row) * call.shape->k_padded;
      part.y = scratch.gate_up, part.y_stride = 2 * kGatePanels * kPanel;
      const int left = tile.panel_end - begin;
      int8_tile_rows(part, scratch, 0, rows, panel_run(tile, row, view.shape, gate, 0, count, left, view.expanded));
      part.y = scratch.gate_up + kGatePanels * kPanel;
      int8_tile_rows(part, scratch, 0, rows, panel_run(tile, row, view.shape, up, 0, count, left, view.expanded));
      for (int r = 0; r < rows; ++r) {
        const float* const gates = scratch.gate_up + r * part.y_stride;
        store_swiglu(swiglu, row + r, begin, count, gates, gates + part.y_stride / 2);
      }
    });
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
