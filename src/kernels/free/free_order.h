// The negative control: sums in the order that suits the moment, as engines without a contract take it. K is cut by the
// size of the tile, which comes from the rows of the step and the number of threads; one row has kernels of its own;
// attention is split by load; a norm adds over the machine's own lanes. Results are as accurate as the contract's and
// never the same twice over batches or threads. Nothing of the contract reads this file: a set of it is asked for by
// name (free/free_sets.h), stores its data as its twin does, and says what it is (KernelSet::free_order).
//
// fma32 and int8 alone. Numerics of exact emulation have no free order.
#pragma once

#include "kernels/cpu/set.h"

namespace eadem::kernels::cpu {
namespace {

// ---- Chains ---------------------------------------------------------------------------------------------------------

// One chain an output over all of k fills the registers with outputs: no leaf ends it.
inline constexpr int kFreeRows = Vec::kWidth == 16 ? 12 : 6;
inline constexpr int kFreePanels = Vec::kWidth == 16 ? 2 : 1;

// acc += x * w for kRows x kPanels, kPhases chains an output that take every kPhases-th k.
template <int kRows, int kPanels, int kPhases>
[[gnu::noinline]] static void free_block(float* acc, int64_t acc_stride, const float* x, int64_t x_stride,
                                         const std::byte* panel, size_t panel_stride, int k) {
  constexpr int kAll = kPanels * kVecs;
  Vec chain[kPhases][kRows][kAll];
#pragma GCC unroll 16
  for (int i = 0; i < kPhases * kRows * kAll; ++i) chain[i / (kRows * kAll)][i / kAll % kRows][i % kAll] = Vec(0.0f);
  constexpr int kPairs = kPhases > 2 ? kPhases / 2 : 1;
  for (int pair = 0; pair < k / 2; pair += kPairs) {
#pragma GCC unroll 8
    for (int step = 0; step < 2 * kPairs; ++step) {
      const std::byte* line = panel + static_cast<size_t>(pair + step / 2) * kPairBytes;
      Vec w[kAll];
#pragma GCC unroll 8
      for (int v = 0; v < kAll; ++v) {
        const std::byte* part = line + v / kVecs * panel_stride + v % kVecs * sizeof(Vec);
        if (step % 2 == 0 && v % kVecs == 0) __builtin_prefetch(part + kAhead);
        const IVec pairs = IVec::load(part);
        w[v] = step % 2 == 0 ? even(pairs) : odd(pairs);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vec xv(x[r * x_stride + 2 * pair + step]);
#pragma GCC unroll 8
        for (int v = 0; v < kAll; ++v) chain[step % kPhases][r][v] = fma(xv, w[v], chain[step % kPhases][r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) {
      Vec sum = chain[0][r][v];
#pragma GCC unroll 8
      for (int phase = 1; phase < kPhases; ++phase) sum = add(sum, chain[phase][r][v]);
      float* to = acc + r * acc_stride + v * Vec::kWidth;
      add(Vec::load(to), sum).store(to);
    }
  }
}

template <int kPanels>
EADEM_FN void free_rows(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* panel,
                        size_t panel_stride, int k) {
  for_row_blocks<kFreeRows>(rows, 0, [&]<int kRows>(int first, const Ahead&) {
    constexpr int kPhases = kRows * kPanels * kVecs >= 8 ? 1 : 2;  // few chains wait for themselves
    free_block<kRows, kPanels, kPhases>(acc + first * acc_stride, acc_stride, x.value + first * x.stride, x.stride,
                                        panel, panel_stride, k);
  });
}

// One row: the panels of a cache line's worth of outputs together, then single ones, each with as many chains as there
// are registers.
EADEM_FN void free_one_row(float* acc, const float* x, const std::byte* panel, size_t panel_stride, int panels, int k) {
  constexpr int kTogether = Vec::kWidth == 16 ? 4 : Vec::kWidth == 8 ? 2 : 1;
  constexpr int kPhases = Vec::kWidth == 8 ? 2 : 4, kAlonePhases = Vec::kWidth == 16 ? 8 : 4;
  int p = 0;
  for (; p + kTogether <= panels; p += kTogether) {
    free_block<1, kTogether, kPhases>(acc + p * kPanel, 0, x, 0, panel + p * panel_stride, panel_stride, k);
  }
  for (; p < panels; ++p) free_block<1, 1, kAlonePhases>(acc + p * kPanel, 0, x, 0, panel + p * panel_stride, 0, k);
}

// As chains() of cpu/linear_chain.h: acc += the sums over k.
EADEM_FN void free_chains(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* panel,
                          size_t panel_stride, int panels, int k) {
  if (rows == 1) return free_one_row(acc, x.value, panel, panel_stride, panels, k);
  int p = 0;
  for (; p + kFreePanels <= panels; p += kFreePanels) {
    free_rows<kFreePanels>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, k);
  }
  for (; p < panels; ++p) {
    free_rows<1>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, k);
  }
}

// ---- Linear layers --------------------------------------------------------------------------------------------------

struct FreeWalk : OperandWalk<Numerics::kFma32> {
  EADEM_LANE void run(const LinearCall& call, const Piece& p, float* sums, int64_t stride) const {
    const size_t panel_bytes = linear_panel_bytes(*call.shape);
    const std::byte* first = call.weights + static_cast<size_t>(p.panel) * panel_bytes + operand_panel_bytes(p.k);
    free_chains(sums, stride, {value + (p.k - begin), nullptr, length}, p.rows, first, panel_bytes, p.panels, p.length);
  }
};

// How many k are summed at once: what of the tile's weights stays in the second-level cache while its rows pass, and
// what of its rows stays in the first. Few rows reuse nothing; one row is cut in halves.
EADEM_FN int free_k_block(const LinearShape& s, int unit, int panels, int rows) {
  constexpr int kTileBytes = 256 * 1024, kRowBytes = 24 * 1024, kLeast = 128;
  const int all = s.k_padded, most = kBlockX / rows / unit * unit;
  if (rows == 1) return std::min(most, std::max(unit, all / 2 / unit * unit));
  if (rows < 4) return std::min(most, all);
  const int weight_bytes = s.numerics == Numerics::kInt8 ? 1 : 2;
  const int fits =
      std::min(kTileBytes / (panels * kPanel * weight_bytes), kRowBytes / (rows * static_cast<int>(sizeof(float))));
  return std::min({most, all, std::max(fits, kLeast) / unit * unit});
}

template <class Walk>
EADEM_FN void free_tile(const LinearCall& call, const LinearTile& tile) {
  Walk walk;
  alignas(64) float sums[kBlockOutputs], part[kBlockOutputs];
  const int rows_left = tile.row_end - tile.row_begin, block_rows = std::min(rows_left, kBlockRows);
  const int block_panels = kBlockOutputs / kPanel / block_rows;
  const int k_block = free_k_block(*call.shape, Walk::unit(*call.shape), tile.panel_end - tile.panel_begin, block_rows);
  for (int panel = tile.panel_begin; panel < tile.panel_end; panel += block_panels) {
    for (int row = tile.row_begin; row < tile.row_end; row += block_rows) {
      Piece piece{
          row, std::min(block_rows, tile.row_end - row), panel, std::min(block_panels, tile.panel_end - panel), 0, 0};
      const int64_t width = static_cast<int64_t>(piece.panels) * kPanel, outputs = piece.rows * width;
      std::fill_n(sums, outputs, 0.0f);
      for (; piece.k < call.shape->k_padded; piece.k += k_block) {
        piece.length = std::min(k_block, call.shape->k_padded - piece.k);
        walk.expand_rows(call, piece);
        std::fill_n(part, outputs, 0.0f);
        walk.run(call, piece, part, width);
        for (int64_t i = 0; i < outputs; i += Vec::kWidth)
          add(Vec::load(sums + i), Vec::load(part + i)).store(sums + i);
      }
      for (int64_t i = 0; i < outputs / kPanel; ++i) {
        store_outputs(call, row + static_cast<int>(i) / piece.panels, panel + static_cast<int>(i) % piece.panels,
                      sums + i * kPanel, 0);
      }
    }
  }
}

EADEM_FN void free_linear(const LinearCall& call, const LinearTile& tile) {
  count_call();
  LinearShape shape = *call.shape;
  shape.shards = 1;
  LinearCall whole = call;
  whole.shape = &shape;
  if (shape.numerics == Numerics::kMma16) __builtin_trap();
  if (shape.numerics == Numerics::kFma32) return free_tile<FreeWalk>(whole, tile);
  free_tile<Int8Walk>(whole, tile);
}

// ---- Attention ------------------------------------------------------------------------------------------------------

struct FreeChunk : AttentionChunk<Numerics::kFma32> {
  void add_block(const AttentionShape& shape, const KvView& kv, int kv_head, int64_t b, float* o, bool* bad,
                 int phase) {
    const int64_t first_key = b * kKvBlock;
    const Extent e = extent(first_key);
    if (e.low == e.high) return;
    const std::byte* block = kv.block(b, kv_head);
    const int rows = e.high - e.low, head = shape.head_padded;
    std::fill_n(scores, rows * kKvBlock, 0.0f);
    free_chains(scores, kKvBlock, {operands.q_value + e.low * head, nullptr, head}, rows, block, key_panel_bytes(shape),
                kKeyPanels, head);
    for (int i = e.low; i < e.high; ++i) {
      float* const p = operands.value(i - e.low);
      const Visible seen = visible(i, first_key);
      if (seen.none()) {
        std::fill_n(p, kKvBlock, 0.0f);
      } else if (!weigh<Numerics::kFma32>(shape, seen, scores + (i - e.low) * kKvBlock, state[i],
                                          o + static_cast<int64_t>(i) * head, p, operands.p_power)) {
        bad[(phase + i) / shape.group()] = true;
      }
    }
    free_chains(o + static_cast<int64_t>(e.low) * head, head, {operands.p_value, nullptr, kKvBlock}, rows,
                block + value_offset(shape), kValuePanelBytes, value_panels(shape), kKvBlock);
  }

  // The keys [from, to) of a split.
  void run_part(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t from, int64_t to,
                int first, const SplitResult& result) {
    start(shape, rows, kv_head, from / kSplit, first);
    for (int i = 0; i < count; ++i) begin[i] = std::max(begin[i], from), end[i] = std::min(end[i], to);
    std::fill_n(result.o, static_cast<int64_t>(count) * shape.head_padded, 0.0f);
    for (int64_t b = from / kKvBlock; b * kKvBlock < to; ++b) {
      add_block(shape, rows.kv, kv_head, b, result.o, result.bad, first % shape.group());
    }
    for (int i = 0; i < count; ++i) {
      result.m[i] = state[i].m;
      result.l[i] = (state[i].l[0] + state[i].l[1]) + (state[i].l[2] + state[i].l[3]);
    }
  }
};

// Few rows leave the vectors idle: their keys are cut into parts, which are joined afterwards.
EADEM_FN void free_attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                                   const SplitResult& result) {
  count_call();
  FreeChunk chunk;
  alignas(64) float o[kChunk * kMaxHead], m[kChunk], l[kChunk];
  const int total = rows.rows * shape.group();
  const int64_t parts = rows.rows == 1 ? 4 : total < kChunk ? 2 : 1, keys = kSplit / parts;
  for (int first = 0; first < total; first += kChunk) {
    chunk.count = std::min(kChunk, total - first);
    bool* const bad = result.bad + first / shape.group();
    const SplitResult whole{result.m + first, result.l + first,
                            result.o + static_cast<int64_t>(first) * shape.head_padded, bad};
    const SplitResult part{m, l, o, bad};
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t from = split * kSplit + i * keys;
      chunk.run_part(shape, rows, kv_head, from, from + keys, first, i == 0 ? whole : part);
      if (i > 0) attention_merge(shape, chunk.count, whole, part);
    }
  }
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

EADEM_FN float free_sum_of_squares(const float* x, int n) {
  constexpr int kChains = 4;
  Vec sum[kChains];
  for (Vec& s : sum) s = Vec(0.0f);
  int i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    Vec& s = sum[i / Vec::kWidth % kChains];
    s = fma(Vec::load(x + i), Vec::load(x + i), s);
  }
  float lanes[Vec::kWidth], total = 0.0f;
  add(add(sum[0], sum[1]), add(sum[2], sum[3])).store(lanes);
  for (const float lane : lanes) total += lane;
  for (; i < n; ++i) total += x[i] * x[i];
  return total;
}

inline bool free_rms_norm(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y) {
  count_call();
  return scale_row(x, weight, rms_factor(free_sum_of_squares(x, n), n, eps), n, n_padded, y);
}

constexpr KernelSet free_order_set(std::string_view name, bool (*supported)()) {
  KernelSet set = cpu_set(name, supported);
  set.free_order = true;
  set.linear = free_linear;
  set.attention_split = free_attention_split;
  set.rms_norm = free_rms_norm;
  return set;
}

}  // namespace
}  // namespace eadem::kernels::cpu
