// Row-parallel projections: K is cut into 8, 4, 2 or 1 equal shards, each its own chain, joined by a fixed binary tree.
// So the bits do not depend on how many ranks, or split-K workers, evaluated the shards.
#pragma once

#include "numerics/ieee.h"

namespace eadem::numerics {

inline constexpr int kMaxShards = 8;

// The largest of 8, 4, 2, 1 that leaves whole units (32, or the scale group where larger) in each shard of the padded
// K.
constexpr int shard_count(int k_padded, int unit) {
  int shards = kMaxShards;
  while (shards > 1 && k_padded % (shards * unit) != 0) shards /= 2;
  return shards;
}

// ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), shorter trees alike.
EADEM_FN float shard_tree(const float* s, int shards) {
  if (shards == 1) return s[0];
  if (shards == 2) return add_f32(s[0], s[1]);
  const float low = add_f32(add_f32(s[0], s[1]), add_f32(s[2], s[3]));
  if (shards == 4) return low;
  return add_f32(low, add_f32(add_f32(s[4], s[5]), add_f32(s[6], s[7])));
}

}  // namespace eadem::numerics
