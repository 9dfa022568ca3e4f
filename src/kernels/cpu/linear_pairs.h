// fma32 by AVX512_BF16. vdpbf16ps is two fused multiply-adds, the pair's odd slot first, so with k in the odd slot and
// k + 2 beside it one instruction walks two links of the even chain, or of the odd one. (It flushes subnormals, which
// no chain of operands meets: numerics/operand.h.)
//
// A panel of weights is a sequence of leaves, each [chain][8][16 outputs][2]: line j of chain c holds k = 4 j + c in
// the odd slots and 4 j + c + 2 in the even ones. Rows of x are words [chain][8] a leaf, in the same order.
#pragma once

#include "kernels/cpu/linear_chain.h"
#include "kernels/cpu/vec.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kLeafWords = numerics::kLeaf / 2;

// As operand_index, for this layout.
constexpr size_t pair_index(int lane, int k) {
  const int i = k % numerics::kLeaf, line = i % 2 * (kLeafWords / 2) + i / 4, slot = i / 2 % 2 == 0 ? 1 : 0;
  return (static_cast<size_t>(k / numerics::kLeaf * kLeafWords + line) * kPanel + static_cast<size_t>(lane)) * 2 +
         static_cast<size_t>(slot);
}

// Where the halves of a leaf's words come from.
struct PairOrder {
  alignas(64) uint16_t from[numerics::kLeaf];
  constexpr PairOrder() : from() {
    for (int i = 0; i < numerics::kLeaf; ++i) {
      const size_t at = pair_index(0, i);
      from[at / (2 * kPanel) * 2 + at % 2] = static_cast<uint16_t>(i);
    }
  }
};
inline constexpr PairOrder kPairOrder;

// Operands as words. k: a multiple of 32.
EADEM_FN void pair_operands(const uint16_t* operands, int k, int32_t* words) {
  const __m512i order = _mm512_load_si512(kPairOrder.from);
  for (int i = 0; i < k; i += numerics::kLeaf) {
    _mm512_storeu_si512(words + i / 2, _mm512_permutexvar_epi16(order, _mm512_loadu_si512(operands + i)));
  }
}

// The same of operands that are floats.
EADEM_FN void pair_values(const float* values, int k, int32_t* words) {
  const __m512i order = _mm512_load_si512(kPairOrder.from);
  for (int i = 0; i < k; i += numerics::kLeaf) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(values + i + Vec::kWidth), _mm512_loadu_ps(values + i));
    _mm512_storeu_si512(words + i / 2, _mm512_permutexvar_epi16(order, (__m512i)both));
  }
}

// A pair of each output times a word of x, added to `sum`.
EADEM_LANE Vec add_pair(Vec sum, IVec w, int32_t x) {
  return Vec(_mm512_dpbf16_ps(sum.v, (__m512bh)_mm512_set1_epi32(x), (__m512bh)w.v));
}

using PairWord [[gnu::may_alias]] = int32_t;

// Words of x, `row` apart from row to row, and sums, apart from row to row and from panel to panel.
struct PairRows {
  const PairWord* x;
  int64_t row;
};
struct PairSums {
  float* at;
  int64_t row, panel = kPanel;
};

// One leaf of kRows x kPanels: even and odd chains stay in registers. kLine: words of x from line to line of a leaf.
template <int kRows, int kPanels, int kLine>
EADEM_INLINE void pair_leaf(const PairSums& sums, const PairRows& rows, const std::byte* panel, size_t panel_stride,
                            size_t ahead) {
  Vec chain[2][kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) chain[0][r][p] = chain[1][r][p] = Vec(0.0f);
  }
  for (int j = 0; j < kLeafWords / 2; ++j) {
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      const int line = c * (kLeafWords / 2) + j;
      IVec w[kPanels];
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* at = panel + static_cast<size_t>(p) * panel_stride + static_cast<size_t>(line) * kPairBytes;
        prefetch_weights(at + ahead);
        w[p] = IVec::load(at);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < kPanels; ++p)
          chain[c][r][p] = add_pair(chain[c][r][p], w[p], rows.x[r * rows.row + line * kLine]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      float* const sum = sums.at + r * sums.row + p * sums.panel;
      add(Vec::load(sum), add(chain[0][r][p], chain[1][r][p])).store(sum);
    }
  }
}

// Not inlined, so that the compiler has all registers for it.
template <int kRows, int kPanels, int kLine>
[[gnu::noinline]] static void pair_block(PairSums sums, PairRows rows, const std::byte* panel, size_t panel_stride,
                                         Ahead ahead, int k) {
  for (int i = 0; i < k; i += numerics::kLeaf, rows.x += kLeafWords * kLine) {
    pair_leaf<kRows, kPanels, kLine>(sums, rows, panel + operand_panel_bytes(i), panel_stride,
                                     ahead.of_leaf(i / numerics::kLeaf));
  }
}

template <int kPanels, int kLine = 1>
EADEM_FN void pair_rows(const PairSums& sums, const PairRows& x, int rows, const std::byte* panel, size_t panel_stride,
                        size_t next, int k) {
  for_row_blocks<kFmaRows>(rows, next, [&]<int kRows>(int first, const Ahead& ahead) {
    pair_block<kRows, kPanels, kLine>({sums.at + first * sums.row, sums.row, sums.panel}, {x.x + first * x.row, x.row},
                                      panel, panel_stride, ahead, k);
  });
}

// As chains() of cpu/linear_chain.h, for fma32 in this layout. x: words, x_stride of them from row to row.
EADEM_FN void pair_chains(float* acc, int64_t acc_stride, const int32_t* x, int64_t x_stride, int rows,
                          const std::byte* panel, size_t panel_stride, int panels, size_t next, int k) {
  int p = 0;
  for (; p + kFmaPanels <= panels; p += kFmaPanels) {
    pair_rows<kFmaPanels>({acc + p * kPanel, acc_stride}, {x, x_stride}, rows, panel + p * panel_stride, panel_stride,
                          next, k);
  }
  for (; p < panels; ++p) {
    pair_rows<1>({acc + p * kPanel, acc_stride}, {x, x_stride}, rows, panel + p * panel_stride, panel_stride, next, k);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
