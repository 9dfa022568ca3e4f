// Across lanes: maxima, and the sums of numerics/vector_sum.h, whose 256 logical lanes lie in memory, so that vectors
// of any width walk over them.
#pragma once

#include "kernels/cpu/vec.h"
#include "numerics/vector_sum.h"

namespace eadem::kernels::cpu {
namespace {

using numerics::kLanes;

// Four floats, for the trees over adjacent elements: every instruction set has shuffles of these.
typedef float Float4 __attribute__((vector_size(16)));

EADEM_LANE Float4 load4(const float* p) {
  Float4 x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
EADEM_LANE void store4(float* p, Float4 x) { __builtin_memcpy(p, &x, sizeof x); }

// x[0] + x[1], x[2] + x[3], x[4] + x[5], x[6] + x[7].
EADEM_LANE Float4 pair_sums(const float* x) {
  const Float4 a = load4(x), b = load4(x + 4);
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

// The largest lane: maxima may be taken in any order.
inline float largest_lane(Vec x) {
  float lanes[Vec::kWidth];
  x.store(lanes);
  Float4 best = load4(lanes);
  for (int i = 4; i < Vec::kWidth; i += 4) {
    const Float4 other = load4(lanes + i);
    best = best > other ? best : other;
  }
  const float low = best[0] > best[1] ? best[0] : best[1], high = best[2] > best[3] ? best[2] : best[3];
  return low > high ? low : high;
}

// a[0] + a[1], a[2] + a[3], ..., then those of b.
template <class V>
EADEM_LANE V pair_sums(V a, V b) {
  if constexpr (V::kWidth == 16) {
    return add(V(__builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)),
               V(__builtin_shufflevector(a.v, b.v, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)));
  } else if constexpr (V::kWidth == 8) {
    return add(V(__builtin_shufflevector(a.v, b.v, 0, 2, 4, 6, 8, 10, 12, 14)),
               V(__builtin_shufflevector(a.v, b.v, 1, 3, 5, 7, 9, 11, 13, 15)));
  } else {
    return add(V(__builtin_shufflevector(a.v, b.v, 0, 2, 4, 6)), V(__builtin_shufflevector(a.v, b.v, 1, 3, 5, 7)));
  }
}

// numerics::lane_tree.
inline float lane_tree(float* lanes) {
  int width = kLanes / 2;
  for (; width >= Vec::kWidth; width /= 2) {
    for (int i = 0; i < width; i += Vec::kWidth) {
      pair_sums(Vec::load(lanes + 2 * i), Vec::load(lanes + 2 * i + Vec::kWidth)).store(lanes + i);
    }
  }
  for (; width >= 4; width /= 2) {
    for (int i = 0; i < width; i += 4) store4(lanes + i, pair_sums(lanes + 2 * i));
  }
  return numerics::add_f32(numerics::add_f32(lanes[0], lanes[1]), numerics::add_f32(lanes[2], lanes[3]));
}

// Folds n elements into the lanes, in order: lanes[i % 256] = step(lanes[i % 256], x[i]), for vectors and for the last
// single elements. A part of the lanes at a time, which stay in registers.
template <class Step>
EADEM_LANE void fold_lanes(const float* x, int n, float* lanes, Step step) {
  constexpr int kHeld = Vec::kWidth == 16 ? 8 : 4;
  constexpr int kPart = kHeld * Vec::kWidth;
  for (int part = 0; part < kLanes; part += kPart) {
    Vec held[kHeld];
    for (int v = 0; v < kHeld; ++v) held[v] = Vec::load(lanes + part + v * Vec::kWidth);
    int i = part;
    for (; i + kPart <= n; i += kLanes) {
      for (int v = 0; v < kHeld; ++v) held[v] = step(held[v], Vec::load(x + i + v * Vec::kWidth));
    }
    for (int v = 0; v < kHeld; ++v) held[v].store(lanes + part + v * Vec::kWidth);
    const int end = i + kPart < n ? i + kPart : n;
    for (; i + Vec::kWidth <= end; i += Vec::kWidth) {
      float* const lane = lanes + i % kLanes;
      step(Vec::load(lane), Vec::load(x + i)).store(lane);
    }
    for (; i < end; ++i) lanes[i % kLanes] = step(lanes[i % kLanes], x[i]);
  }
}

inline float vector_sum_of_squares(const float* x, int n) {
  alignas(64) float lanes[kLanes] = {};
  fold_lanes(x, n, lanes, [](auto lane, auto element) {
    using numerics::fma;
    return fma(element, element, lane);
  });
  return lane_tree(lanes);
}

}  // namespace
}  // namespace eadem::kernels::cpu
