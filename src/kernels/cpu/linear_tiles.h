// fma32 linear layers by AMX tiles, over the panels of cpu/linear_chain.h, whose leaves of 1 KiB are tiles as they lie.
//
// From 3 to 16 rows, four panels at a time stream past a tile of rows. More rows are blocks of 32 by two panels: four
// sums, each loaded tile used twice. Either way a weight is read from memory once: a panel pair stays in the caches
// while the rows of the call pass.
#pragma once

#include <utility>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_tiles_int8.h"
#include "kernels/cpu/operand_writer.h"
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

EADEM_LANE void prefetch_leaf(const std::byte* ahead) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kLeafBytes; i += 64) __builtin_prefetch(ahead + i);
}

// Chains of up to 16 rows over kPanels panels from 0, stored to sums [rows][kPanels * 16]. left: leaves to the panels'
// end, from where each stream goes on kPanels panels later. Tiles 0 ... 3: sums; 4: x; 5, 6, 7: weights.
template <int kPanels>
EADEM_INLINE void stream_chains(const TileOperands& at, int left, float* sums) {
  const std::byte *x = at.x, *w = at.w, *ahead = at.w + kStreamAhead;
  left -= static_cast<int>(kStreamAhead / kLeafBytes);
  tile_zero<0>();
  if constexpr (kPanels > 1) tile_zero<1>();
  if constexpr (kPanels > 2) tile_zero<2>(), tile_zero<3>();
  if (left < 0) ahead += (kPanels - 1) * at.panel;
  for (int i = 0; i < at.leaves; ++i, x += kTileRowBytes, w += kLeafBytes, ahead += kLeafBytes) {
    if (i == left) ahead += (kPanels - 1) * at.panel;
    tile_load<4>(x, at.x_stride);
    prefetch_leaf(ahead);
    tile_load<5>(w), tile_bf16_leaf<0, 4, 5>();
    if constexpr (kPanels > 1) {
      prefetch_leaf(ahead + at.panel);
      tile_load<6>(w + at.panel), tile_bf16_leaf<1, 4, 6>();
    }
    if constexpr (kPanels > 2) {
      prefetch_leaf(ahead + 2 * at.panel);
      tile_load<7>(w + 2 * at.panel), tile_bf16_leaf<2, 4, 7>();
      prefetch_leaf(ahead + 3 * at.panel);
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
  const int leaves = call.shape->k_padded / numerics::kLeaf, shards = call.shape->shards;
  for (int shard = 0; shard < shards; ++shard) {
    stream_chains<kPanels>(tile_operands(call, tile.row_begin, panel, shard), leaves - shard * leaves / shards,
                           sums + shard * kSums);
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

// What becomes of a row of sums of two panels. sums: [2][16], shards kSums apart.
class StoreRow {
 public:
  static constexpr int kStep = 2;  // panels from block to block

  EADEM_LANE explicit StoreRow(const LinearCall& call)
      : call_(&call),
        y_(call.y),
        bias_(call.bias),
        stride_(call.y_stride),
        whole_(call.shape->n / kPanel),
        shards_(call.shape->shards),
        add_to_y_(call.add_to_y) {}

  EADEM_LANE int second_panel(int panel) const { return panel + 1; }
  // Only what is read again: lines that are written whole need not come first.
  EADEM_LANE void prefetch(int row, int panel) const {
    if (!add_to_y_) return;
    const float* const y = y_ + row * stride_ + panel * kPanel;
    __builtin_prefetch(y, 1);
    __builtin_prefetch(y + kPanel, 1);
  }
  EADEM_LANE void operator()(int row, int panel, const float* sums) const {
    store(row, panel, sums);
    store(row, panel + 1, sums + kPanel);
  }

 private:
  EADEM_LANE void store(int row, int panel, const float* sums) const {
    if (panel >= whole_) return store_outputs(*call_, row, panel, sums, kSums);
    float* const y = y_ + row * stride_ + panel * kPanel;
    Vec sum = shard_tree(sums, kSums, shards_);
    if (bias_ != nullptr) sum = add(sum, Vec::load(bias_ + panel * kPanel));
    if (add_to_y_) sum = add(Vec::load(y), sum);
    sum.store(y);
  }

  // What the loop needs is here once more: a tile's load or store makes the compiler read all other memory again.
  const LinearCall* call_;
  float* y_;
  const float* bias_;
  int64_t stride_;
  int whole_, shards_;
  bool add_to_y_;
};

// A gate's panel beside that of its ups: SwiGLU takes them from the sums, so that neither goes to memory as float32.
class SwigluRow {
 public:
  static constexpr int kStep = 1;

  EADEM_LANE SwigluRow(const SwigluCall& call, int gates)
      : y_(call.y), stride_(call.y_stride), bad_(call.bad), gates_(gates) {}

  EADEM_LANE int second_panel(int panel) const { return panel + gates_; }
  EADEM_LANE void prefetch(int, int) const {}
  EADEM_LANE void operator()(int row, int panel, const float* sums) const {
    OperandWriter writer;
    writer.put(y_ + row * stride_ + panel * kPanel, numerics::swiglu32(Vec::load(sums), Vec::load(sums + kPanel)));
    if (!writer.good()) __atomic_store_n(bad_ + row, true, __ATOMIC_RELAXED);  // other tiles have the same row
  }

 private:
  uint16_t* y_;
  int64_t stride_;
  bool* bad_;
  int gates_;  // panels
};

// A block of sums in scratch whose rows [next, end) are not finished.
struct WaitingBlock {
  const float* sums = nullptr;
  int row = 0, panel = 0;  // of its first sum
  int next = 0, end = 0;
};

template <class FinishRow>
EADEM_LANE void finish_rows(const FinishRow& finish, WaitingBlock& block, int most) {
  for (; most > 0 && block.next < block.end; --most, ++block.next) {
    finish(block.row + block.next, block.panel, block.sums + block.next * 2 * kPanel);
  }
}

// The pair of panels that comes next, asked for into the second-level cache a few lines at a time: without, the first
// block of every pair would wait for memory longer than a block takes.
struct NextPanels {
  const std::byte *left = nullptr, *right = nullptr;
  size_t lines = 0, done = 0;  // cache lines of one panel

  EADEM_LANE void prefetch(size_t most) {
    const size_t end = done + most < lines ? done + most : lines;
    for (; done < end; ++done) {
      __builtin_prefetch(left + done * 64, 0, 2);
      __builtin_prefetch(right + done * 64, 0, 2);
    }
  }
};

// What the vector units do while the tiles multiply: a few rows of the block before, a few lines of what comes.
template <class FinishRow>
struct Beside {
  FinishRow finish;
  int rows_a_leaf;
  size_t lines_a_leaf;
  WaitingBlock before = {};
  NextPanels coming = {};
  int panel = 0, y_row = 0, y_end = 0;  // outputs of the block under way, whose lines are not asked for yet

  EADEM_LANE void after_leaf() {
    finish_rows(finish, before, rows_a_leaf);
    coming.prefetch(lines_a_leaf);
    for (int r = 0; r < rows_a_leaf && y_row < y_end; ++r, ++y_row) finish.prefetch(y_row, panel);
  }
};

EADEM_LANE void store_square(float* to) {
  constexpr size_t kStride = 2 * kPanel * sizeof(float);
  float* const lower = to + kTileRows * 2 * kPanel;
  tile_store<0>(to, kStride);
  tile_store<1>(to + kPanel, kStride);
  tile_store<2>(lower, kStride);
  tile_store<3>(lower + kPanel, kStride);
}

// Chains of two tiles of rows by two panels from 0, left in tiles 0, 1 (the first 16 rows), 2, 3. The rows of x come by
// way of the second-level cache, so that the panels, which every block reads, stay in the first. Vectors finish the
// block before: its sums have long reached memory by then, and the products wait for nobody.
template <class FinishRow>
EADEM_INLINE void square_chains(const TileOperands& at, Beside<FinishRow>& beside) {
  const std::byte* const lower = at.x + kTileRows * at.x_stride;
  const std::byte* const right = at.w + at.panel;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (size_t i = 0; i < static_cast<size_t>(at.leaves); ++i) {
    tile_load<6>(at.w + i * kLeafBytes);
    tile_load_once<4>(at.x + i * kTileRowBytes, at.x_stride);
    tile_bf16_leaf<0, 4, 6>();
    tile_load<7>(right + i * kLeafBytes);
    tile_bf16_leaf<1, 4, 7>();
    tile_load_once<5>(lower + i * kTileRowBytes, at.x_stride);
    tile_bf16_leaf<2, 5, 6>();
    tile_bf16_leaf<3, 5, 7>();
    beside.after_leaf();
  }
}

// Blocks of 32 rows (or all, from 17 on) by two panels. The last block of a tile overlaps the one before it, so that
// each has as many rows; a row that has been computed before has the same sums, and is not finished again.
// sums: 2 blocks x shards x kSums.
template <class FinishRow>
EADEM_FN void squares(const LinearCall& call, const LinearTile& tile, const FinishRow& finish, float* sums) {
  const LinearShape& s = *call.shape;
  const int rows = tile.row_end - tile.row_begin, size = rows < kSquareRows ? rows : kSquareRows;
  TileConfig config;
  for (const int i : {2, 3, 5}) config.rows[i] = static_cast<uint8_t>(size - kTileRows);
  configure_tiles(config);
  const int leaves = s.k_padded / numerics::kLeaf, blocks = (rows + size - 1) / size;
  const size_t panel_bytes = operand_panel_bytes(s.k_padded);
  Beside<FinishRow> beside{finish, (kSquareRows + leaves - 1) / leaves,
                           static_cast<size_t>(kLeafBytes / 64 + blocks - 1) / blocks};
  float *filling = sums, *finishing = sums + s.shards * kSums;
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += FinishRow::kStep) {
    const int next = panel + FinishRow::kStep < tile.panel_end ? panel + FinishRow::kStep : panel;
    beside.coming = {call.weights + static_cast<size_t>(next) * panel_bytes,
                     call.weights + static_cast<size_t>(finish.second_panel(next)) * panel_bytes, panel_bytes / 64};
    for (int row = tile.row_begin; row < tile.row_end; row += size) {
      const int first = row + size <= tile.row_end ? row : tile.row_end - size;
      beside.panel = panel, beside.y_row = row, beside.y_end = first + size;
      for (int shard = 0; shard < s.shards; ++shard) {
        TileOperands at = tile_operands(call, first, panel, shard);
        at.panel = static_cast<size_t>(finish.second_panel(panel) - panel) * panel_bytes;
        square_chains(at, beside);
        store_square(filling + shard * kSums);
      }
      finish_rows(beside.finish, beside.before, kSquareRows);
      beside.before = {filling, first, panel, row - first, size};
      std::swap(filling, finishing);
    }
  }
  finish_rows(beside.finish, beside.before, kSquareRows);
}

EADEM_FN void tile_fma32(const LinearCall& call, const LinearTile& tile) {
  alignas(64) float sums[2 * numerics::kMaxShards * kSums];
  if (tile.row_end - tile.row_begin <= kTileRows) return stream(call, tile, sums);
  LinearTile part = tile;
  part.panel_end -= (tile.panel_end - tile.panel_begin) % 2;
  squares(call, part, StoreRow(call), sums);
  if (part.panel_end == tile.panel_end) return;
  // A last panel without a partner streams past 16 rows at a time.
  part.panel_begin = part.panel_end, part.panel_end = tile.panel_end;
  for (; part.row_begin < tile.row_end; part.row_begin = part.row_end) {
    part.row_end = part.row_begin + kTileRows < tile.row_end ? part.row_begin + kTileRows : tile.row_end;
    stream(call, part, sums);
  }
}

// Operands of SwiGLU are padded to a leaf; here nobody writes padding.
EADEM_FN bool tile_fuses_swiglu(const LinearShape& s, int rows) {
  const bool squares_take = s.numerics == Numerics::kFma32 && rows > kTileRows;
  return (squares_take || tiles_fuse_swiglu(s, rows)) && s.shards == 1 && s.n % (2 * numerics::kLeaf) == 0;
}

EADEM_FN void tile_linear_swiglu(const LinearCall& call, const SwigluCall& swiglu, const LinearTile& tile) {
  count_call();
  if (call.shape->numerics == Numerics::kInt8) return tile_int8_swiglu(call, swiglu, tile);
  alignas(64) float sums[2 * kSums];
  squares(call, tile, SwigluRow(swiglu, call.shape->n / 2 / kPanel), sums);
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
