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
  static constexpr bool kOwnRows = false;
  static constexpr int registers(int) { return kMostRegisters; }
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

// d = c + a b over 32 bytes.
EADEM_DEVICE void multiply(int32_t* d, const Fragment4& a, uint32_t b0, uint32_t b1, const int32_t (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, "
      "%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]),
        "r"(c[3]));
}

// A chain lasts as long as its tiles one after the other: a wait, two loads, four dependent products, four steps of
// float32. Only the last of these depends on the tile before, so the products of several tiles are under way together.
template <int kRows, int kGroups, bool kMinimum, bool kOwnRows_>
class WarpInt8 {
 public:
  static constexpr int kWarps = 1;
  static constexpr bool kOwnRows = kOwnRows_;  // the CTA has quantised them
  static constexpr int registers(int levels) { return int8_registers(true, 128 / kGroups, kRows, levels); }

  static EADEM_DEVICE void run(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) {
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) acc[i] = 0.0f;
    const WarpInt8 chain(a, c);
    int tile = 0;
    // Tiles are waited for and handed back together: a shallow ring would run dry meanwhile.
    if constexpr (kTogether > 2) {
      for (; a.stages >= 12 && tile + 4 <= a.shard_tiles; tile += 4) chain.take_several<4>(a, c, acc);
    }
    if constexpr (kTogether > 1) {
      for (; a.stages >= 8 && tile + 2 <= a.shard_tiles; tile += 2) chain.take_several<2>(a, c, acc);
    }
    for (; tile < a.shard_tiles; ++tile) chain.take_one(a, c, tile, acc);
  }

 private:
  static constexpr int kTogether = kGroups > 1 ? 1 : kRows == 8 ? 4 : 2;
  using Scales = GroupScales<kRows, kGroups, kMinimum>;

  EADEM_DEVICE WarpInt8(const StreamArgs& a, const Consumer& c) : sides_(a, c) {
    const int lane = c.lane();
    weights_ = static_cast<uint32_t>((c.output + lane % 16) * kTileRowBytes + ((lane / 16 ^ lane % 8) << 4));
    rows_ = static_cast<uint32_t>(a.x_offset + (c.row + lane % 8) * kTileRowBytes + ((lane / 8 ^ lane % 8) << 4));
    groups_ = a.shard_k / (kTileRowBytes / kGroups);
    if constexpr (kOwnRows) {
      const uint32_t own = c.ring.base + static_cast<uint32_t>(a.own_rows_offset);
      const uint32_t scales = own + static_cast<uint32_t>(a.k_tiles / a.split * a.own_tile_bytes);
      // All rows of a fragment may be the only one.
      const bool one = a.own_rows_kept == 1;
      rows_ = own + (one ? static_cast<uint32_t>(lane / 8 << 4) : rows_ - static_cast<uint32_t>(a.x_offset));
      sides_.x = scales + (one ? 0 : sides_.x - static_cast<uint32_t>(a.x_side_offset));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) bias_[i] = float_bias();
  }

  EADEM_DEVICE Fragment4 weights_at(uint32_t stage, int step) const {
    return load_matrices((stage + weights_) ^ static_cast<uint32_t>(step << 5));
  }
  // What rows_ and sides_.x count from.
  EADEM_DEVICE uint32_t rows_stage(const StreamArgs& a, uint32_t stage, int tile) const {
    return kOwnRows ? static_cast<uint32_t>(tile * a.own_tile_bytes) : stage;
  }
  EADEM_DEVICE uint32_t scales_stage(const StreamArgs& a, uint32_t stage, int tile) const {
    return kOwnRows ? static_cast<uint32_t>(tile * a.own_scale_bytes) : stage;
  }
  // 64 bytes of k, the half-th of the tile, of the j-th eight rows.
  EADEM_DEVICE Fragment4 rows_at(uint32_t rows_stage, int j, int half) const {
    return load_matrices((rows_stage + rows_ + static_cast<uint32_t>(j * 8 * kTileRowBytes)) ^
                         static_cast<uint32_t>(half << 6));
  }

  // The next kTiles tiles of the shard, each a group.
  template <int kTiles>
  EADEM_DEVICE void take_several(const StreamArgs& a, Consumer& c, float (&acc)[kRows / 2]) const {
    int slot[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      slot[t] = c.cursor.stage;
      barrier_wait(c.ring.full_at(slot[t]), c.cursor.parity);
      c.cursor.advance(a.stages);
    }
    int32_t dot[kTiles][kRows / 2];
    Scales scales[kTiles];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const uint32_t stage = c.ring.stage_at(a, slot[t]);
      const uint32_t rows = rows_stage(a, stage, c.tile + t);
      scales[t].load(sides_, stage, scales_stage(a, stage, c.tile + t), 0);
      const Fragment4 w[4] = {weights_at(stage, 0), weights_at(stage, 1), weights_at(stage, 2), weights_at(stage, 3)};
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) multiply_group(w, rows, j, dot[t] + 4 * j);
    }
    c.tile += kTiles;
    __syncwarp();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      group_arrive(c.ring.empty_at(slot[t]), c.lane() == 0);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) scales[t].apply(dot[t], acc);
  }

  // The biased dot products of a tile that is one group, for eight rows.
  EADEM_DEVICE void multiply_group(const Fragment4 (&w)[4], uint32_t rows_stage, int j, int32_t* dot) const {
    const Fragment4 x[2] = {rows_at(rows_stage, j, 0), rows_at(rows_stage, j, 1)};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint32_t b0 = x[step / 2].r[step % 2 * 2], b1 = x[step / 2].r[step % 2 * 2 + 1];
      if (step == 0) {
        multiply(dot, w[step], b0, b1, bias_);
      } else {
        multiply(dot, w[step], b0, b1);
      }
    }
  }

  // The next tile, the tile-th of the shard.
  EADEM_DEVICE void take_one(const StreamArgs& a, Consumer& c, int tile, float (&acc)[kRows / 2]) const {
    const uint32_t stage = c.ring.stage_at(a, c.cursor.stage);
    barrier_wait(c.ring.full_at(c.cursor.stage), c.cursor.parity);
    Scales scales;
    if constexpr (kGroups == 1) {
      const uint32_t rows = rows_stage(a, stage, c.tile);
      scales.load(sides_, stage, scales_stage(a, stage, c.tile), 0);
      const Fragment4 w[4] = {weights_at(stage, 0), weights_at(stage, 1), weights_at(stage, 2), weights_at(stage, 3)};
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        int32_t dot[4];
        multiply_group(w, rows, j, dot);
        scales.apply(j, dot, acc);
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Fragment4 x[kRows / 8];
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) x[j] = rows_at(stage, j, half);
#pragma unroll
        for (int g = 2 * half; g < 2 * half + 2; ++g) {
          const Fragment4 w = weights_at(stage, g);
          scales.load(sides_, stage, stage, g);
          if (tile * kGroups + g >= groups_) continue;
#pragma unroll
          for (int j = 0; j < kRows / 8; ++j) {
            int32_t dot[4];
            multiply(dot, w, x[j].r[g % 2 * 2], x[j].r[g % 2 * 2 + 1], bias_);
            scales.apply(j, dot, acc);
          }
        }
      }
    }
    c.release(c.cursor.stage);
    c.cursor.advance(a.stages);
    ++c.tile;
  }

  SideOffsets<kGroups, kMinimum> sides_;
  uint32_t weights_, rows_;  // of this lane's addresses in a stage
  int groups_;               // of a shard
  int32_t bias_[4];
};

}  // namespace
}  // namespace eadem::kernels::cuda
