// int8 over panels: exact dot products inside a scale group, an fp32 chain over the groups.
//
// A panel is a sequence of groups, so that decode reads one stream: [group / 4][16][4] int8, then 16 float scales,
// then, with minima, 16 float minima. A stored -128 is as good as any other value: nothing here takes a weight's
// absolute value.
#pragma once

#include "kernels/cpu/vec.h"
#include "kernels/cpu/linear_chain.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr size_t kQuadBytes = kPanel * 4;
inline constexpr size_t kScaleBytes = kPanel * sizeof(float);

constexpr size_t int8_group_bytes(const LinearShape& s) {
  return static_cast<size_t>(s.group) * kPanel + kScaleBytes * (s.minimum ? 2 : 1);
}
constexpr size_t int8_panel_bytes(const LinearShape& s) {
  return static_cast<size_t>(s.k_padded / s.group) * int8_group_bytes(s);
}

// Rows of int8 activations, their quads expanded to what Dot reads: [k / 4][Dot::kWords].
struct Int8Rows {
  const int32_t* words = nullptr;
  const float* scale = nullptr;  // per group
  const int32_t* sum = nullptr;  // of q, per group
  int64_t stride = 0;            // words from row to row
  int64_t side_stride = 0;       // scales, and sums, from row to row
};

// Expands q for Int8Rows. k: a multiple of 4.
EADEM_FN void expand_int8(const int8_t* q, int k, int32_t* words) {
  for (int i = 0; i < k; i += 4) {
    if constexpr (Dot::kWords == 1) {
      memcpy(words++, q + i, 4);
    } else {
      *words++ = static_cast<int32_t>((static_cast<uint32_t>(q[i]) & 0xffffu) | static_cast<uint32_t>(q[i + 2]) << 16);
      *words++ =
          static_cast<int32_t>((static_cast<uint32_t>(q[i + 1]) & 0xffffu) | static_cast<uint32_t>(q[i + 3]) << 16);
    }
  }
}

// One group of kRows x kPanels.
template <int kRows, int kPanels>
EADEM_INLINE void int8_group_block(float* acc, int64_t acc_stride, const Int8Rows& x, const std::byte* panel,
                                   size_t panel_stride, const LinearShape& s) {
  constexpr int kAll = kPanels * kVecs;
  Dot dot[kRows][kAll];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) dot[r][v] = Dot::start(x.sum[r * x.side_stride]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < s.group / 4; ++i) {
    Quads w[kAll];
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) {
      const std::byte* part = panel + i * kQuadBytes + v / kVecs * panel_stride + v % kVecs * sizeof(Vec);
      if (v % kVecs == 0) __builtin_prefetch(part + kAhead);
      w[v] = Quads::load(part);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int32_t* words = x.words + r * x.stride + i * Dot::kWords;
#pragma GCC unroll 8
      for (int v = 0; v < kAll; ++v) dot[r][v].add_products(w[v], words);
    }
  }
  const std::byte* side = panel + static_cast<size_t>(s.group) * kPanel;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Vec x_scale(x.scale[r * x.side_stride]);
#pragma GCC unroll 8
    for (int v = 0; v < kAll; ++v) {
      float* sum = acc + r * acc_stride + v * Vec::kWidth;
      const auto* w_scale = reinterpret_cast<const float*>(side + v / kVecs * panel_stride + v % kVecs * sizeof(Vec));
      Vec next = fma(to_float(dot[r][v].total()), mul(x_scale, Vec::load(w_scale)), Vec::load(sum));
      if (s.minimum) {
        const Vec x_sum(static_cast<float>(x.sum[r * x.side_stride]));
        next = fma(x_sum, mul(x_scale, Vec::load(w_scale + kPanel)), next);
      }
      next.store(sum);
    }
  }
}

// Not inlined, so that the compiler has all registers for it.
template <int kRows, int kPanels>
[[gnu::noinline]] static void int8_block(float* acc, int64_t acc_stride, Int8Rows x, const std::byte* panel,
                                         size_t panel_stride, const LinearShape& s, int groups) {
  for (int g = 0; g < groups; ++g) {
    int8_group_block<kRows, kPanels>(acc, acc_stride, x, panel, panel_stride, s);
    x.words += s.group / 4 * Dot::kWords, x.scale += 1, x.sum += 1;
    panel += int8_group_bytes(s);
  }
}

template <int kPanels>
EADEM_FN void int8_rows(float* acc, int64_t acc_stride, const Int8Rows& x, int rows, const std::byte* panel,
                        size_t panel_stride, const LinearShape& s, int groups) {
  for_row_blocks<kInt8Rows>(rows, [&]<int kRows>(int first) {
    const Int8Rows block{x.words + first * x.stride, x.scale + first * x.side_stride, x.sum + first * x.side_stride,
                         x.stride, x.side_stride};
    int8_block<kRows, kPanels>(acc + first * acc_stride, acc_stride, block, panel, panel_stride, s, groups);
  });
}

// As chains() of cpu/linear_chain.h, over whole groups.
EADEM_FN void int8_chains(float* acc, int64_t acc_stride, const Int8Rows& x, int rows, const std::byte* panel,
                          size_t panel_stride, int panels, const LinearShape& s, int groups) {
  int p = 0;
  for (; p + kInt8Panels <= panels; p += kInt8Panels) {
    int8_rows<kInt8Panels>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, s, groups);
  }
  for (; p < panels; ++p) {
    int8_rows<1>(acc + p * kPanel, acc_stride, x, rows, panel + p * panel_stride, panel_stride, s, groups);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
