// Chains of bf16 operands over panels, for linear layers and attention: fma32 and mma16.
//
// A panel holds 16 outputs (weights of a layer, keys of a block, elements of a head's values) as [k / 2][16][2] bf16:
// one cache line is two k of 16 outputs. `chains` continues the chains of rows x panels over k: the carries come in
// through acc and the results leave through it, so that a caller may cut k anywhere between leaves (fma32: 32; mma16:
// 16), or start from its own carry.
#pragma once

#include "kernels/cpu/vec.h"
#include "numerics/config.h"
#include "numerics/version.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kVecs = kPanel / Vec::kWidth;  // vectors that cover a panel
inline constexpr size_t kPairBytes = kPanel * 2 * sizeof(uint16_t);

constexpr size_t operand_panel_bytes(int k) { return static_cast<size_t>(k) / 2 * kPairBytes; }
// Where the operand of output `lane` (0 .. 15) and element k lies in its panel.
constexpr size_t operand_index(int lane, int k) { return (static_cast<size_t>(k) / 2 * kPanel + lane) * 2 + k % 2; }

// Rows of x as floats. power: the power-of-two part of each value (+0 for zero), which mma16 alone reads.
struct ChainRows {
  const float* value = nullptr;
  const float* power = nullptr;
  int64_t stride = 0;  // from row to row, in both
};

// Bytes by which a tree that computes longer than memory takes asks for its weights ahead of their use (mma16, and what
// is summed in free order).
inline constexpr size_t kAhead = 2048;

// Decode reads memory: the panels that come next are asked for while these pass. They go to the second-level cache:
// what the first level waits for takes its few buffers from the loads beside it.
EADEM_LANE void prefetch_weights(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

// Of several blocks of rows that pass the same panels each asks for its share of the leaves (or scale groups) of the
// coming ones, so that memory is read all the time and not by the first block alone.
struct Ahead {
  size_t next;      // bytes to what is asked for
  int turn, turns;  // this block of rows, of so many

  // How far ahead of this leaf is to be asked; 0: not at all.
  EADEM_LANE size_t of_leaf(int leaf) const { return leaf % turns == turn ? next : 0; }
};

// Calls run<R>(first, ahead) for blocks of at most kRows rows, as even as can be: 8 rows are 4 + 4, not 6 + 2.
template <int kRows, class Run>
EADEM_INLINE void dispatch_rows(int rows, int first, const Ahead& ahead, const Run& run) {
  if constexpr (kRows == 1) {
    run.template operator()<1>(first, ahead);
  } else if (rows == kRows) {
    run.template operator()<kRows>(first, ahead);
  } else {
    dispatch_rows<kRows - 1>(rows, first, ahead, run);
  }
}
template <int kRows, class Run>
EADEM_INLINE void for_row_blocks(int rows, size_t next, const Run& run) {
  Ahead ahead{next, 0, (rows + kRows - 1) / kRows};
  for (int first = 0; first < rows; ++ahead.turn) {
    const int left = ahead.turns - ahead.turn, size = (rows - first + left - 1) / left;
    dispatch_rows<kRows>(size, first, ahead, run);
    first += size;
  }
}

// The pointer as one that the compiler knows nothing of: what is read through it is read again, and no distances to it
// are kept. There would be far more of either than registers.
template <class T>
EADEM_LANE T* opaque(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

// Expands operands for ChainRows. k: a multiple of 16.
template <Numerics kTree>
EADEM_FN void expand_operands(const uint16_t* operands, int k, float* value, float* power) {
  for (int i = 0; i < k; i += Vec::kWidth) {
    const Vec x = expand(operands + i);
    x.store(value + i);
    if constexpr (kTree == Numerics::kMma16) power_of(x).store(power + i);
  }
}

// ---- fma32 ----------------------------------------------------------------------------------------------------------

// One leaf of kRows x kPanels: even and odd chains stay in registers.
template <int kRows, int kPanels>
EADEM_INLINE void fma32_leaf_block(float* acc, int64_t acc_stride, const float* x, int64_t x_stride,
                                   const std::byte* panel, size_t panel_stride, size_t ahead) {
  constexpr int kAll = kPanels * kVecs;
  Vec chain[2][kRows][kAll];  // even, odd
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) chain[0][r][v] = chain[1][r][v] = Vec(0.0f);
  }
  for (size_t pair = 0; pair < numerics::kLeaf / 2; ++pair) {
    const std::byte* line = panel + pair * kPairBytes;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      Vec w[kAll];
#pragma GCC unroll 8
      for (int v = 0; v < kAll; ++v) {
        const std::byte* part = line + v / kVecs * panel_stride + v % kVecs * sizeof(Vec);
        if (half == 0 && v % kVecs == 0) prefetch_weights(part + ahead);
        const IVec pairs = IVec::load(part);
        w[v] = half == 0 ? even(pairs) : odd(pairs);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec xv(x[r * x_stride + static_cast<int64_t>(pair) * 2 + half]);
#pragma GCC unroll 8
        for (int v = 0; v < kAll; ++v) chain[half][r][v] = fma(xv, w[v], chain[half][r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) {
      float* sum = acc + r * acc_stride + v * Vec::kWidth;
      add(Vec::load(sum), add(chain[0][r][v], chain[1][r][v])).store(sum);
    }
  }
}

// Not inlined, so that the compiler has all registers for it.
template <int kRows, int kPanels>
[[gnu::noinline]] static void fma32_block(float* acc, int64_t acc_stride, const float* x, int64_t x_stride,
                                          const std::byte* panel, size_t panel_stride, Ahead ahead, int k) {
  for (int i = 0; i < k; i += numerics::kLeaf) {
    fma32_leaf_block<kRows, kPanels>(acc, acc_stride, x + i, x_stride, panel + operand_panel_bytes(i), panel_stride,
                                     ahead.of_leaf(i / numerics::kLeaf));
  }
}

template <int kPanels>
EADEM_FN void fma32_rows(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* panel,
                         size_t panel_stride, size_t next, int k) {
  for_row_blocks<kFmaRows>(rows, next, [&]<int kRows>(int first, const Ahead& ahead) {
    fma32_block<kRows, kPanels>(acc + first * acc_stride, acc_stride, x.value + first * x.stride, x.stride, panel,
                                panel_stride, ahead, k);
  });
}

// ---- mma16 ----------------------------------------------------------------------------------------------------------

// The exact sum of a + b, truncated toward zero to 24 significant bits. Either part is below 2^30 + 2^27; the sum may
// pass 2^31.
EADEM_INLINE Vec add_truncating(IVec a, IVec b) {
  const IVec sum = add(a, b);
  const IVec overflow = bit_and(bit_xor(sum, a), bit_xor(sum, b));
  Vec result = to_float_truncating(sum);
  if (any(negative(overflow))) [[unlikely]] {
    // The sum's sign is then a's, and its magnitude, at least 2^31, loses nothing by dropping the lowest bit.
    const IVec sign = shift_right<31>(a);
    const IVec half = shift_right_logical<1>(sub(bit_xor(sum, sign), sign));
    const Vec magnitude = mul(to_float_truncating(half), Vec(2.0f));
    const Vec large = float_of(bit_or(bits_of(magnitude), bit_and(a, IVec(static_cast<int32_t>(0x80000000u)))));
    result = select(negative(overflow), large, result);
  }
  return result;
}

// The 16 weights of a lane, and their power-of-two parts: expanded once for several rows.
struct KeptWeights {
  Vec value[numerics::kGroup], power[numerics::kGroup];

  EADEM_LANE explicit KeptWeights(const std::byte* lines) {
#pragma GCC unroll 8
    for (int i = 0; i < numerics::kGroup; i += 2) {
      const IVec pairs = IVec::load(lines + i / 2 * kPairBytes);
      value[i] = even(pairs), value[i + 1] = odd(pairs);
      power[i] = power_of(value[i]), power[i + 1] = power_of(value[i + 1]);
    }
  }
  EADEM_LANE void pair(int i, Vec& first, Vec& second) const { first = value[i], second = value[i + 1]; }
  EADEM_LANE void powers(int i, Vec& first, Vec& second) const { first = power[i], second = power[i + 1]; }
  EADEM_LANE const KeptWeights& again() const { return *this; }
};

// The same for one row: expanding them twice is less than to keep 32 vectors in memory.
struct ReadWeights {
  const std::byte* lines;

  EADEM_LANE void pair(int i, Vec& first, Vec& second) const {
    const IVec pairs = IVec::load(lines + i / 2 * kPairBytes);
    first = even(pairs), second = odd(pairs);
  }
  EADEM_LANE void powers(int i, Vec& first, Vec& second) const {
    pair(i, first, second);
    first = power_of(first), second = power_of(second);
  }
  EADEM_LANE ReadWeights again() const { return {opaque(lines)}; }
};

// One MMA16: carry + sum of 16 products x[i] * w[i]. All of it is exact but the two truncations: scaled by 2^(25 - e)
// each term's integer part is what the tensor core keeps.
template <class Weights>
EADEM_INLINE Vec mma16_step(Vec carry, const Weights& weights, const float* x, const float* x_power) {
  Vec top0(0x1p-100f), top1(0x1p-100f);  // no nonzero product is smaller; a smaller carry is a multiple of 2^-125
  Vec first, second;
#pragma GCC unroll 16
  for (int i = 0; i < numerics::kGroup; i += 2) {
    weights.powers(i, first, second);
    top0 = max(top0, mul(first, Vec(x_power[i])));
    top1 = max(top1, mul(second, Vec(x_power[i + 1])));
  }
  const Vec top = max(max(top0, top1), power_of(carry));
  const Vec scale = float_of(sub(IVec((127 + 25 + 127) << 23), bits_of(top)));  // 2^25 / top
  IVec low(0), high = truncate(mul(carry, scale));
  const auto& again = weights.again();
#pragma GCC unroll 16
  for (int i = 0; i < numerics::kGroup; i += 2) {
    again.pair(i, first, second);
    low = add(low, truncate(mul(mul(first, Vec(x[i])), scale)));
    high = add(high, truncate(mul(mul(second, Vec(x[i + 1])), scale)));
  }
  return mul(mul(add_truncating(low, high), Vec(0x1p-25f)), top);
}

// One group of 16 k for all rows and one vector of outputs.
EADEM_INLINE void mma16_group(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* lines) {
#pragma GCC unroll 8
  for (int i = 0; i < numerics::kGroup; i += 2) __builtin_prefetch(lines + i / 2 * kPairBytes + kAhead);
  if (rows == 1) {
    mma16_step(Vec::load(acc), ReadWeights{lines}, x.value, x.power).store(acc);
    return;
  }
  const KeptWeights weights(lines);
  for (int r = 0; r < rows; ++r) {
    float* carry = acc + r * acc_stride;
    mma16_step(Vec::load(carry), weights, x.value + r * x.stride, x.power + r * x.stride).store(carry);
  }
}

EADEM_FN void mma16_rows(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* panel, int k) {
  for (int i = 0; i < k; i += numerics::kGroup) {
    const ChainRows group{x.value + i, x.power + i, x.stride};
    for (int v = 0; v < kVecs; ++v) {
      mma16_group(acc + v * Vec::kWidth, acc_stride, group, rows, panel + operand_panel_bytes(i) + v * sizeof(Vec));
    }
  }
}

// ---- Either ---------------------------------------------------------------------------------------------------------

// acc[r * acc_stride + p * 16 + lane] continues its chain over k elements, for r < rows and p < panels. acc: floats,
// carries in and results out. panel_stride: bytes from panel to panel. next: bytes from what is read to what is
// asked for (fma32). k: a multiple of the tree's leaf.
template <Numerics kTree>
EADEM_FN void chains(float* acc, int64_t acc_stride, const ChainRows& x, int rows, const std::byte* panel,
                     size_t panel_stride, int panels, size_t next, int k) {
  static_assert(kTree != Numerics::kInt8);
  int p = 0;
  if constexpr (kTree == Numerics::kFma32) {
    for (; p + kFmaPanels <= panels; p += kFmaPanels) {
      fma32_rows<kFmaPanels>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, next, k);
    }
    for (; p < panels; ++p) {
      fma32_rows<1>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, next, k);
    }
  } else {
    for (; p < panels; ++p) mma16_rows(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, k);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
