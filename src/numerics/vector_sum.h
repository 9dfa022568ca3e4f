// Sums over a vector: 256 logical lanes, lane l takes elements l, l + 256, ... in order; then a binary tree over
// adjacent lanes. The machine's own vector width never shows.
#pragma once

#include "numerics/ieee.h"
#include "numerics/version.h"

namespace eadem::numerics {

// Joins the 256 lanes (destroys them).
EADEM_FN float lane_tree(float* lanes) {
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = add_f32(lanes[2 * i], lanes[2 * i + 1]);
  }
  return lanes[0];
}

EADEM_FN float vector_sum(const float* x, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] = add_f32(lanes[i % kLanes], x[i]);
  return lane_tree(lanes);
}

EADEM_FN float vector_sum_of_squares(const float* x, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i % kLanes] = fma_f32(x[i], x[i], lanes[i % kLanes]);
  return lane_tree(lanes);
}

}  // namespace eadem::numerics
