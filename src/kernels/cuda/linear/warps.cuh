// Chains by mma.sync: a warp evaluates 16 outputs for a block of rows. A dependent wgmma of so few rows takes about 150
// cycles, a dependent mma.sync about 33: where a layer's chains are long and few, that decides. The bits are the same.
#pragma once

#include "kernels/cuda/linear/consumer.cuh"

namespace eadem::kernels::cuda {
namespace {

struct Fragment4 {
  uint32_t r[4];
};

// Four 8 x 16-byte matrices; this lane's address is that of row lane % 8 of matrix lane / 8.
EADEM_DEVICE Fragment4 load_matrices(uint32_t address) {
  Fragment4 f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(address)
               : "memory");
  return f;
}

// 32 bytes of k, the g-th of the tile, of 16 outputs.
EADEM_DEVICE Fragment4 load_weights_fragment(uint32_t weights, int lane, int g) {
  const int row = lane % 16, chunk = 2 * g + lane / 16;
  return load_matrices(weights + static_cast<uint32_t>(row * kTileRowBytes + ((chunk ^ (row & 7)) << 4)));
}
// 64 bytes of k, the half-th of the tile, of eight rows: r[0], r[1] its first 32 bytes, r[2], r[3] the others.
EADEM_DEVICE Fragment4 load_rows_fragment(uint32_t rows, int lane, int half) {
  const int row = lane % 8, chunk = 4 * half + lane / 8;
  return load_matrices(rows + static_cast<uint32_t>(row * kTileRowBytes + ((chunk ^ row) << 4)));
}

// d += a b over 16 operands of k; dot likewise over 32 bytes.
EADEM_DEVICE void multiply(float* d, const Fragment4& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}
EADEM_DEVICE void multiply(int32_t* d, const Fragment4& a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

// The chain of one shard. The groups beyond the shard's k in its last tile have zero weights: products of zero change
// nothing.
template <int kRows>
struct WarpMma16 {
  static constexpr int kWarps = 1;
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&d)[kRows / 2]) {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) d[i] = 0.0f;
    for (int tile = 0; tile < a.shard_tiles; ++tile) {
      const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
      const uint32_t weights = stage + static_cast<uint32_t>(c.output * kTileRowBytes);
      const uint32_t rows = stage + static_cast<uint32_t>(a.x_offset);
      barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Fragment4 w[2] = {load_weights_fragment(weights, c.lane(), 2 * half),
                                load_weights_fragment(weights, c.lane(), 2 * half + 1)};
        Fragment4 x[kRows / 8];
#pragma unroll
        for (int t = 0; t < kRows / 8; ++t) {
          x[t] = load_rows_fragment(rows + static_cast<uint32_t>(t * 8 * kTileRowBytes), c.lane(), half);
        }
        if (half == 1) c.release(c.cursor.stage);
#pragma unroll
        for (int g = 0; g < 2; ++g) {
#pragma unroll
          for (int t = 0; t < kRows / 8; ++t) multiply(d + 4 * t, w[g], x[t].r[2 * g], x[t].r[2 * g + 1]);
        }
      }
      c.cursor.advance(a.stages);
    }
  }
};

template <int kRows, int kGroups>
struct WarpInt8 {
  static constexpr int kWarps = 1;
  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
    const int groups = a.shard_k / (kTileRowBytes / kGroups);
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) acc[i] = 0.0f;
    for (int first = 0; first < groups; first += kGroups) {
      const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
      const uint32_t weights = stage + static_cast<uint32_t>(c.output * kTileRowBytes);
      const uint32_t rows = stage + static_cast<uint32_t>(a.x_offset);
      barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
      int32_t dot[kRows / 2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Fragment4 x[kRows / 8];
#pragma unroll
        for (int t = 0; t < kRows / 8; ++t) {
          x[t] = load_rows_fragment(rows + static_cast<uint32_t>(t * 8 * kTileRowBytes), c.lane(), half);
        }
#pragma unroll
        for (int g = 0; g < 2; ++g) {
          const int step = 2 * half + g;
          const Fragment4 w = load_weights_fragment(weights, c.lane(), step);
          if (step % (4 / kGroups) == 0) {
#pragma unroll
            for (int i = 0; i < kRows / 2; ++i) dot[i] = 0;
          }
#pragma unroll
          for (int t = 0; t < kRows / 8; ++t) multiply(dot + 4 * t, w, x[t].r[2 * g], x[t].r[2 * g + 1]);
          if constexpr (kGroups == 4) {
            if (first + step < groups) apply_group<kRows, kGroups>(a, c, stage, step, dot, acc);
          }
        }
      }
      if constexpr (kGroups == 1) apply_group<kRows, kGroups>(a, c, stage, 0, dot, acc);
      c.release(c.cursor.stage);
      c.cursor.advance(a.stages);
    }
  }
};

}  // namespace
}  // namespace eadem::kernels::cuda
