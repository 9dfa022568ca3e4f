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

// The chain of one shard over its scale groups, several of whose dots are computed at a time. While one warpgroup adds,
// others compute. Groups beyond the shard's k in its last tile are computed and thrown away (a wgmma in a branch would
// serialise them all).
template <int kRows, int kGroups, bool kMinimum>
EADEM_DEVICE void shard_chain_int8(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
  constexpr int kTogether = kRows == 64 && kGroups == 4 ? 2 : kGroups;
  const int groups = a.shard_k / (kTileRowBytes / kGroups);
  const SideOffsets<kGroups, kMinimum> sides(a, c);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) acc[i] = 0.0f;
  for (int first = 0; first < groups; first += kGroups) {
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
        if (kGroups == 1 || first + sub + i < groups) scales[i].apply(dot[i], acc);
      }
    }
    c.cursor.advance(a.stages);
  }
}

template <int kRows>
struct WarpgroupMma16 {
  static constexpr int kWarps = 4;
  static constexpr bool kOwnRow = false;
  static constexpr int registers(int levels) { return levels == 0 ? 96 : kMostRegisters; }
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&d)[kRows / 2]) { shard_chain<kRows>(a, c, d); }
};
template <int kRows, int kGroups, bool kMinimum>
struct WarpgroupInt8 {
  static constexpr int kWarps = 4;
  static constexpr bool kOwnRow = false;
  static constexpr int registers(int levels) { return int8_registers(false, 128 / kGroups, kRows, levels); }
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
    shard_chain_int8<kRows, kGroups, kMinimum>(a, c, acc);
  }
};

}  // namespace
}  // namespace eadem::kernels::cuda
