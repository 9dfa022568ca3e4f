// int8 over panels: exact dot products inside a scale group, an fp32 chain over the groups.
//
// A panel is a sequence of groups, so that decode reads one stream: [group / 4][16][4] int8, and 16 scales, and, with
// minima, 16 minima. Two groups at a time are neighbours, first the weights of both and then their scales: a group of
// 512 bytes with 32 of scales would else move each second group off the cache lines that tiles load. A last group
// without a neighbour leaves the place of one empty. Nibbles (Int8Weights) are [group / 8][16][4] bytes, byte j of an
// output holding element j of eight below element j + 4, each with 8 added where there is no minimum. Scales and minima
// are float32, or float16 where they are known to be. A stored -128 is as good as any other value: where a magnitude is
// taken, it is an unsigned byte.
//
// Quads are four weights of each lane; Dot sums their products with x, four int8 as an int32 word. Where VNNI
// multiplies unsigned by signed bytes, weights are offset (Dot::kOffset), as nibbles are everywhere (by 8, if they have
// no minimum): minus the offset times x's sum is what a Dot starts from, or adds in the end.
#pragma once

#include <type_traits>

#include "kernels/cpu/vec.h"
#include "kernels/cpu/linear_chain.h"
#include "numerics/int8.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr size_t kQuadBytes = kPanel * 4;

constexpr bool has_nibbles(const LinearShape& s) { return s.stored == Int8Weights::kNibbles; }
// What is added to a nibble.
constexpr int nibble_zero(const LinearShape& s) { return s.minimum ? 0 : 8; }
constexpr size_t scale_bytes(const LinearShape& s) {
  return kPanel * (s.stored == Int8Weights::kAny ? sizeof(float) : sizeof(uint16_t));
}
// Bytes of a group's weights, before its scales.
constexpr size_t int8_quads_bytes(const LinearShape& s) {
  return static_cast<size_t>(s.group) * kPanel / (has_nibbles(s) ? 2 : 1);
}
constexpr size_t int8_side_bytes(const LinearShape& s) { return scale_bytes(s) * (s.minimum ? 2 : 1); }
constexpr size_t int8_pair_bytes(const LinearShape& s) { return 2 * (int8_quads_bytes(s) + int8_side_bytes(s)); }
EADEM_LANE size_t int8_panel_bytes(const LinearShape& s) {
  return static_cast<size_t>((s.groups() + 1) / 2) * int8_pair_bytes(s);
}
// Where group g's weights, and its scales, lie in its panel.
constexpr size_t int8_quads_at(const LinearShape& s, int g) {
  return static_cast<size_t>(g / 2) * int8_pair_bytes(s) + static_cast<size_t>(g % 2) * int8_quads_bytes(s);
}
constexpr size_t int8_side_at(const LinearShape& s, int g) {
  return static_cast<size_t>(g / 2) * int8_pair_bytes(s) + 2 * int8_quads_bytes(s) +
         static_cast<size_t>(g % 2) * int8_side_bytes(s);
}

// Rows of int8 activations, four to a word.
struct Int8Rows {
  const QuadWord* words = nullptr;
  const float* scale = nullptr;  // per group
  const int32_t* sum = nullptr;  // of q, per group
  int64_t stride = 0;            // words from row to row
  int64_t side_stride = 0;       // scales, and sums, from row to row
};

// Scales (or minima) of Vec::kWidth outputs, from `lane` of those at `side`.
EADEM_LANE Vec load_scales(const LinearShape& s, const std::byte* side, int lane) {
  return s.stored == Int8Weights::kAny ? Vec::load(reinterpret_cast<const float*>(side) + lane)
                                       : expand_float16(reinterpret_cast<const uint16_t*>(side) + lane);
}

// Walks the weights, or the scales, of the groups of panels that lie behind each other.
struct GroupCursor {
  const std::byte* at;
  const size_t neighbour, pair;  // bytes to the other group of a pair, and from pair to pair
  const int groups;
  int group = 0;

  EADEM_LANE static GroupCursor of_weights(const LinearShape& s, const std::byte* panel, int group = 0) {
    return {panel + int8_quads_at(s, group), int8_quads_bytes(s), int8_pair_bytes(s), s.groups(), group};
  }
  EADEM_LANE static GroupCursor of_scales(const LinearShape& s, const std::byte* panel, int group = 0) {
    return {panel + int8_side_at(s, group), int8_side_bytes(s), int8_pair_bytes(s), s.groups(), group};
  }
  // True behind a panel's last group.
  EADEM_LANE bool advance() {
    const bool last = group + 1 == groups;
    at += group % 2 != 0 ? pair - neighbour : last ? pair : neighbour;
    group = last ? 0 : group + 1;
    return last;
  }
};

template <bool kNibbles>
using DotOf = std::conditional_t<kNibbles, NibbleDot, Dot>;

// Step i of a group: a quad of each lane, or two where they are nibbles.
template <int kRows, int kPanels, bool kNibbles>
EADEM_LANE void int8_step(DotOf<kNibbles> (&dot)[kRows][kPanels * kVecs], const QuadWord* const (&words)[kRows],
                          const std::byte* const (&panel)[kPanels], size_t ahead, int i) {
  constexpr int kAll = kPanels * kVecs, kQuads = kNibbles ? 2 : 1;
  std::conditional_t<kNibbles, NibbleQuads, Quads> w[kQuads][kAll];
#pragma GCC unroll 8
  for (int v = 0; v < kAll; ++v) {
    const std::byte* part = panel[v / kVecs] + i * kQuadBytes + v % kVecs * sizeof(Vec);
    if (v % kVecs == 0) prefetch_weights(part + ahead);
    if constexpr (kNibbles) {
      load_nibbles(part, w[0][v], w[kQuads - 1][v]);
    } else {
      w[0][v] = Quads::load(part);
    }
  }
#pragma GCC unroll 2
  for (int quad = 0; quad < kQuads; ++quad) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kAll; ++v) dot[r][v].add_products(w[quad][v], words[r] + i * kQuads + quad);
    }
  }
}

// The dot products of one group of kRows x kPanels, of which quads are the first panel's.
template <int kRows, int kPanels, int kGroup, bool kNibbles>
EADEM_LANE void int8_group_dots(DotOf<kNibbles> (&dot)[kRows][kPanels * kVecs], const Int8Rows& x,
                                const std::byte* quads, size_t panel_stride, size_t ahead, int offset) {
  constexpr int kSteps = kGroup / 4 / (kNibbles ? 2 : 1);
  const QuadWord* words[kRows];
  const std::byte* panel[kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    words[r] = opaque(x.words + r * x.stride);
    const auto start = DotOf<kNibbles>::start(-offset * x.sum[r * x.side_stride]);
#pragma GCC unroll 8
    for (int v = 0; v < kPanels * kVecs; ++v) dot[r][v] = start;
  }
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) panel[p] = opaque(quads + p * panel_stride);
  // Of one row, which waits for memory, a long loop reads 8 % less than a short one.
  if constexpr (kRows > 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kSteps; ++i) int8_step<kRows, kPanels, kNibbles>(dot, words, panel, ahead, i);
  } else {
#pragma GCC unroll 2
    for (int i = 0; i < kSteps; ++i) int8_step<kRows, kPanels, kNibbles>(dot, words, panel, ahead, i);
  }
}

// sum = fma(dot, scales, sum) for one group (and for its minimum).
template <int kRows, int kAll, class AnyDot>
EADEM_LANE void int8_group_scale(Vec (&sum)[kRows][kAll], const AnyDot (&dot)[kRows][kAll], const Int8Rows& x,
                                 const std::byte* side, size_t panel_stride, const LinearShape& s, int offset) {
#pragma GCC unroll 8
  for (int v = 0; v < kAll; ++v) {
    const std::byte* const scales = side + v / kVecs * panel_stride;
    const Vec w_scale = load_scales(s, scales, v % kVecs * Vec::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const IVec total = dot[r][v].total(-offset * x.sum[r * x.side_stride]);
      sum[r][v] = fma(to_float(total), mul(Vec(x.scale[r * x.side_stride]), w_scale), sum[r][v]);
    }
    if (!s.minimum) continue;
    const Vec minimum = load_scales(s, scales + scale_bytes(s), v % kVecs * Vec::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec x_sum(static_cast<float>(x.sum[r * x.side_stride]));
      sum[r][v] = fma(x_sum, mul(Vec(x.scale[r * x.side_stride]), minimum), sum[r][v]);
    }
  }
}

// Chains of kRows x kPanels over groups [begin, end). Not inlined, so that the compiler has all registers for it.
template <int kRows, int kPanels, int kGroup, bool kNibbles>
[[gnu::noinline]] static void int8_block(float* acc, int64_t acc_stride, Int8Rows x, const std::byte* panel,
                                         size_t panel_stride, Ahead ahead, LinearShape s, int begin, int end) {
  constexpr int kAll = kPanels * kVecs;
  const int offset = kNibbles ? nibble_zero(s) : Dot::kOffset;
  GroupCursor quads = GroupCursor::of_weights(s, panel, begin), side = GroupCursor::of_scales(s, panel, begin);
  Vec sum[kRows][kAll];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) sum[r][v] = Vec::load(acc + r * acc_stride + v * Vec::kWidth);
  }
  for (int g = begin; g < end; ++g) {
    DotOf<kNibbles> dot[kRows][kAll];
    const size_t distance = ahead.of_leaf(g);
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) prefetch_weights(side.at + p * panel_stride + distance);
    int8_group_dots<kRows, kPanels, kGroup, kNibbles>(dot, x, quads.at, panel_stride, distance, offset);
    int8_group_scale(sum, dot, x, side.at, panel_stride, s, offset);
    quads.advance(), side.advance();
    x.words += kGroup / 4, x.scale += 1, x.sum += 1;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) sum[r][v].store(acc + r * acc_stride + v * Vec::kWidth);
  }
}

template <int kPanels>
EADEM_FN void int8_rows(float* acc, int64_t acc_stride, const Int8Rows& x, int rows, const std::byte* panel,
                        size_t panel_stride, const LinearShape& s, int begin, int end) {
  for_row_blocks<kInt8Rows>(rows, kPanels * panel_stride, [&]<int kRows>(int first, const Ahead& ahead) {
    const Int8Rows block{x.words + first * x.stride, x.scale + first * x.side_stride, x.sum + first * x.side_stride,
                         x.stride, x.side_stride};
    float* const first_sum = acc + first * acc_stride;
    constexpr int kLarge = numerics::kQuantisedGroup, kSmall = numerics::kStoredGroup;
    if (has_nibbles(s)) {
      int8_block<kRows, kPanels, kSmall, true>(first_sum, acc_stride, block, panel, panel_stride, ahead, s, begin, end);
    } else if (s.group == kSmall) {
      int8_block<kRows, kPanels, kSmall, false>(first_sum, acc_stride, block, panel, panel_stride, ahead, s, begin,
                                                end);
    } else {
      int8_block<kRows, kPanels, kLarge, false>(first_sum, acc_stride, block, panel, panel_stride, ahead, s, begin,
                                                end);
    }
  });
}

// As chains() of cpu/linear_chain.h, over groups [begin, end), of which x holds the elements.
EADEM_FN void int8_chains(float* acc, int64_t acc_stride, const Int8Rows& x, int rows, const std::byte* panel,
                          size_t panel_stride, int panels, const LinearShape& s, int begin, int end) {
  int p = 0;
  for (; p + kInt8Panels <= panels; p += kInt8Panels) {
    int8_rows<kInt8Panels>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, s, begin,
                           end);
  }
  for (; p < panels; ++p) {
    int8_rows<1>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, s, begin, end);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
