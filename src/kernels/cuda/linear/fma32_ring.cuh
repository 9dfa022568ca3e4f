// The way of the weights through fma32.cu's CTAs: what a CTA evaluates and in which order, and the rings that its warps
// fill ahead of it.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/linear/fma32.h"
#include "kernels/cuda/linear/layout.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kMultipliers = 8;                         // warps
inline constexpr int kWarpTiles = 8;                           // of k, of a warp: those of a slot
inline constexpr int kBlockTiles = kMultipliers * kWarpTiles;  // of a block of k
inline constexpr int kTileGroups = kTileRows / kFma32Group;
inline constexpr int kPieceBytes = kFma32Group * kTileRowBytes;
inline constexpr int kSlotBytes = kWarpTiles * kPieceBytes;

EADEM_DEVICE int k_blocks(const Fma32Args& a) { return (a.k_tiles + kBlockTiles - 1) / kBlockTiles; }

// Batches of groups of outputs, each for a block of rows; of a batch block of k by block of k, each for all its groups.
// Blocks of rows are shared out over teams of as many CTAs as come on each, so that a CTA keeps its rows; neighbours of
// a team take neighbouring groups.
struct Walk {
  int row_block = 0, count = 0;                    // of the batch: its rows, its groups
  int first = 0, teams = 0, done = 0, blocks = 0;  // its first group, CTAs for each of `blocks` blocks after `done`

  EADEM_DEVICE int group(int index) const { return first + index * teams; }

  // Goes on to the first or next batch; false: there is none.
  EADEM_DEVICE bool next(const Fma32Args& a) {
    const int ctas = static_cast<int>(gridDim.x), cta = static_cast<int>(blockIdx.x);
    first += teams * a.batch;
    while (blocks == 0 || first >= a.groups) {
      done += blocks;
      const int left = a.row_blocks - done;
      if (left <= 0) return false;
      teams = (ctas + left - 1) / left;
      blocks = min(left, ctas / teams);
      row_block = done + cta % blocks;
      first = cta / blocks < teams ? cta / blocks : a.groups;
    }
    count = 1;
    while (count < a.batch && first + count * teams < a.groups) ++count;
    return true;
  }
};

// A slot holds a group's weights for eight tiles of k: [tile][output][128 bytes].
// kBoxes: a slot is one copy, which costs the warp least, instead of eight, which the memory delivers 4 to 6 % faster.
template <int kSlots, bool kBoxes>
class Ring {
 public:
  // slots, full: the shared addresses of this warp's slots and of their barriers.
  EADEM_DEVICE Ring(const Fma32Args& a, int warp, uint32_t slots, uint32_t full)
      : warp_(warp), slots_(slots), full_(full), more_(ahead_.next(a)) {}

  // Whether a block of k has tiles for this warp.
  EADEM_DEVICE bool takes(const Fma32Args& a, int k_block) const {
    return k_block * kBlockTiles + warp_ * kWarpTiles < a.k_tiles;
  }

  // Asks for the next weights of the walk that are this warp's. All lanes.
  EADEM_DEVICE void fill(const Fma32Args& a) {
    while (more_) {
      const bool mine = takes(a, k_block_);
      if (mine) ask(a);
      if (++index_ == ahead_.count) {
        index_ = 0;
        if (++k_block_ == k_blocks(a)) k_block_ = 0, more_ = ahead_.next(a);
      }
      if (mine) return;
    }
  }

  // The weights asked for first; then they are done with, and the next ones are asked for.
  EADEM_DEVICE uint32_t wait() const {
    barrier_wait(full_ + 8 * static_cast<uint32_t>(read_), parity_);
    return slots_ + static_cast<uint32_t>(read_ * kSlotBytes);
  }
  EADEM_DEVICE void release(const Fma32Args& a) {
    if (++read_ == kSlots) read_ = 0, parity_ ^= 1;
    __syncwarp();
    fill(a);
  }

 private:
  EADEM_DEVICE void ask(const Fma32Args& a) {
    const int group = ahead_.group(index_), tile = k_block_ * kBlockTiles + warp_ * kWarpTiles;
    const uint32_t barrier = full_ + 8 * static_cast<uint32_t>(written_);
    const uint32_t to = slots_ + static_cast<uint32_t>(written_ * kSlotBytes);
    if (++written_ == kSlots) written_ = 0;
    if (threadIdx.x % 32 != 0) return;
    if constexpr (kBoxes) {
      barrier_expect(barrier, kSlotBytes);
      tensor_load(to, &a.boxes, barrier, group % kTileGroups * (kPieceBytes / 4), tile, group / kTileGroups);
    } else {
      const int count = min(kWarpTiles, a.k_tiles - tile);
      const int64_t index = static_cast<int64_t>(group / kTileGroups) * a.k_tiles + tile;
      const std::byte* from = a.weights + index * kTileBytes + group % kTileGroups * kPieceBytes;
      barrier_expect(barrier, static_cast<uint32_t>(count * kPieceBytes));
#pragma unroll
      for (int i = 0; i < kWarpTiles; ++i) {
        if (i >= count) break;
        bulk_load(to + static_cast<uint32_t>(i * kPieceBytes), from + i * kTileBytes, kPieceBytes, barrier);
      }
    }
  }

  int warp_;
  uint32_t slots_, full_;
  Walk ahead_;
  bool more_;
  int k_block_ = 0, index_ = 0, written_ = 0, read_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace
}  // namespace eadem::kernels::cuda
