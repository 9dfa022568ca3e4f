// Chains by wgmma: a warpgroup evaluates its outputs as the 64 rows of A (fewer: the rest is thrown away) for a block
// of 8, 16, 32 or 64 rows of activations. wgmma's bits are those of numerics/mma16.h for every tile shape.
#pragma once

#include "kernels/cuda/linear/consumer.cuh"
#include "kernels/cuda/linear/warpgroup_mma.cuh"

namespace eadem::kernels::cuda {
namespace {

// The descriptor of an operand whose first row, or a multiple of 32 bytes into it, lies at `address`.
EADEM_DEVICE uint64_t matrix_at(uint32_t address) { return matrix_descriptor((address >> 4) + (1u << 16)); }

// Where this warpgroup's weights begin in a stage.
EADEM_DEVICE uint32_t weights_at(const StreamArgs& a, const Consumer& c, uint32_t stage) {
  return stage + static_cast<uint32_t>(c.first * kTileRowBytes);
}

// hopper.cuh's pin, for integers.
template <int kCount>
EADEM_DEVICE void pin_integers(int32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// The chain of one shard: d = MMA16 over its groups of 16, ascending. The groups beyond the shard's k in its last tile
// have zero weights: products of zero change nothing.
template <int kRows>
EADEM_DEVICE void shard_chain(const StreamArgs& a, Consumer& c, float (&d)[kRows / 2]) {
  int previous = 0;
  for (int tile = 0; tile < a.shard_tiles; ++tile) {
    const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
    const uint32_t weights = weights_at(a, c, stage);
    const uint32_t rows = stage + static_cast<uint32_t>(a.x_offset);
    barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
    wgmma_fence();
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      WarpgroupMma<kRows>::operands(d, matrix_at(weights + 32 * g), matrix_at(rows + 32 * g), tile + g > 0);
    }
    wgmma_commit();
    if (tile > 0) {
      wgmma_wait<1>();
      c.release(previous);
    }
    previous = c.cursor.stage;
    c.cursor.advance(a.stages);
  }
  wgmma_wait<0>();
  pin(d);
  c.release(previous);
}

// Asks for the dot products of one scale group: `dot` += those of kRows rows x 64 outputs. sub: which group of the
// stage.
template <int kRows, int kGroups>
EADEM_DEVICE void issue_group(const StreamArgs& a, const Consumer& c, uint32_t stage, int sub,
                              int32_t (&dot)[kRows / 2]) {
  const uint32_t at = stage + static_cast<uint32_t>(sub * (kTileRowBytes / kGroups));
  const uint32_t weights = weights_at(a, c, at);
  const uint32_t rows = at + static_cast<uint32_t>(a.x_offset + c.row * kTileRowBytes);
#pragma unroll
  for (int i = 0; i < 4 / kGroups; ++i) {
    WarpgroupMma<kRows>::int8(dot, matrix_at(weights + 32 * i), matrix_at(rows + 32 * i), 1);
  }
}

// The next kTiles tiles of the shard, each a scale group, whose products are under way together.
template <int kTiles, int kRows, bool kMinimum>
EADEM_DEVICE void take_tiles(const StreamArgs& a, Consumer& c, const SideOffsets<1, kMinimum>& sides,
                             float (&acc)[kRows / 2]) {
  int32_t dot[kTiles][kRows / 2];
  GroupScales<kRows, 1, kMinimum> scales[kTiles];
  int slot[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) dot[t][i] = float_bias();
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    slot[t] = c.cursor.stage;
    barrier_wait(c.ring.full_at(slot[t]), c.cursor.parity);
    c.cursor.advance(a.stages);
  }
  wgmma_fence();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) issue_group<kRows, 1>(a, c, c.ring.stage_at(a, slot[t]), 0, dot[t]);
  wgmma_commit();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const uint32_t stage = c.ring.stage_at(a, slot[t]);
    scales[t].load(sides, stage, stage, 0);
  }
  wgmma_wait<0>();
#pragma unroll
  for (int t = 0; t < kTiles; ++t) pin_integers(dot[t]);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) c.release(slot[t]);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) scales[t].apply(dot[t], acc);
}

// The same of a tile of kGroups groups, of which `groups` lie inside the shard: the others are computed and thrown away
// (a wgmma in a branch would serialise them all).
template <int kRows, int kGroups, bool kMinimum>
EADEM_DEVICE void take_groups(const StreamArgs& a, Consumer& c, const SideOffsets<kGroups, kMinimum>& sides, int groups,
                              float (&acc)[kRows / 2]) {
  constexpr int kTogether = kRows == 64 ? 2 : kGroups;
  const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
#pragma unroll
  for (int sub = 0; sub < kGroups; sub += kTogether) {
    int32_t dot[kTogether][kRows / 2];
    GroupScales<kRows, kGroups, kMinimum> scales[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int r = 0; r < kRows / 2; ++r) dot[i][r] = float_bias();
    }
    if (sub == 0) barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTogether; ++i) issue_group<kRows, kGroups>(a, c, stage, sub + i, dot[i]);
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < kTogether; ++i) scales[i].load(sides, stage, stage, sub + i);
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < kTogether; ++i) pin_integers(dot[i]);
    if (sub + kTogether == kGroups) c.release(c.cursor.stage);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (sub + i < groups) scales[i].apply(dot[i], acc);
    }
  }
  c.cursor.advance(a.stages);
}

// The chain of one shard over its scale groups, several of whose dots are computed at a time. While one warpgroup adds,
// others compute.
template <int kRows, int kGroups, bool kMinimum>
EADEM_DEVICE void shard_chain_int8(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
  const SideOffsets<kGroups, kMinimum> sides(a, c);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) acc[i] = 0.0f;
  if constexpr (kGroups == 1) {
    int tile = 0;
    // There are registers for two tiles; a shallow ring would run dry meanwhile.
    if constexpr (kRows <= 32) {
      for (; a.stages >= 8 && tile + 2 <= a.shard_tiles; tile += 2) take_tiles<2, kRows>(a, c, sides, acc);
    }
    for (; tile < a.shard_tiles; ++tile) take_tiles<1, kRows>(a, c, sides, acc);
  } else {
    const int groups = a.shard_k / (kTileRowBytes / kGroups);
    for (int first = 0; first < groups; first += kGroups) {
      take_groups<kRows, kGroups>(a, c, sides, groups - first, acc);
    }
  }
}

template <int kRows>
struct WarpgroupMma16 {
  static constexpr int kWarps = 4;
  static constexpr bool kOwnRows = false;
  static constexpr int registers(int levels) { return levels == 0 ? 96 : kMostRegisters; }
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&d)[kRows / 2]) { shard_chain<kRows>(a, c, d); }
};
template <int kRows, int kGroups, bool kMinimum>
struct WarpgroupInt8 {
  static constexpr int kWarps = 4;
  static constexpr bool kOwnRows = false;
  static constexpr int registers(int levels) { return int8_registers(false, 128 / kGroups, kRows, levels); }
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
    shard_chain_int8<kRows, kGroups, kMinimum>(a, c, acc);
  }
};

}  // namespace
}  // namespace eadem::kernels::cuda
