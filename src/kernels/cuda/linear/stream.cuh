// The frame of the kernels that stream weights past a few rows (decode). A CTA has a producer warp, which copies packed
// tiles and the matching piece of the activations into a ring of stages in shared memory, and warps that consume them.
// It walks over items: (some outputs, a block of rows), each over the shards that its rank in a cluster is given. A
// stage is one tile of k (128 bytes of it) for the item's outputs and rows:
//
//   weights [outputs][128], activations [block rows][128]: both as layout.h's tiles, swizzled;
//   int8: also the outputs' entries of scales, and the activations' [scale, sum if minimum][group of the tile][row].
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/stream_args.h"
#include "numerics/shards.h"

namespace eadem::kernels::cuda {

namespace {

// Positions in the ring: a stage and the parity of its barriers' phase.
struct RingCursor {
  int stage = 0;
  uint32_t parity = 0;
  EADEM_DEVICE void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

struct Ring {
  uint32_t base, full, empty;  // shared addresses: stages, barriers
  EADEM_DEVICE uint32_t full_at(int stage) const { return full + 8 * static_cast<uint32_t>(stage); }
  EADEM_DEVICE uint32_t empty_at(int stage) const { return empty + 8 * static_cast<uint32_t>(stage); }
  EADEM_DEVICE uint32_t stage_at(const StreamArgs& a, int stage) const {
    return base + static_cast<uint32_t>(stage * a.stage_bytes);
  }
};

// Outputs and rows of one CTA. n_end: of the outputs that lie in tiles.
struct Item {
  int n, n_end, row;
};

EADEM_DEVICE Item item_at(const StreamArgs& a, int index) {
  const int n = index / a.row_blocks * a.item_outputs;
  return {n, min(n + a.item_outputs, row_tiles(a.shape) * kTileRows), index % a.row_blocks * a.block_rows};
}

// ---- The producer ---------------------------------------------------------------------------------------------------

// Asks for the weights of one stage, and says how many bytes the whole stage will get.
EADEM_DEVICE void load_weights(const StreamArgs& a, const Ring& ring, const Item& item, int tile, int stage) {
  const uint32_t at = ring.stage_at(a, stage), barrier = ring.full_at(stage);
  barrier_expect(barrier, static_cast<uint32_t>((item.n_end - item.n) * (kTileRowBytes + a.entry_bytes) +
                                                a.block_rows * kTileRowBytes + a.x_side_bytes));
  for (int n = item.n; n < item.n_end;) {
    const int row = n % kTileRows, count = min(item.n_end - n, kTileRows - row), done = n - item.n;
    const size_t index =
        static_cast<size_t>(n / kTileRows) * static_cast<size_t>(a.k_tiles) + static_cast<size_t>(tile);
    bulk_load(at + static_cast<uint32_t>(done * kTileRowBytes), a.weights + index * kTileBytes + row * kTileRowBytes,
              static_cast<uint32_t>(count * kTileRowBytes), barrier);
    if (a.entry_bytes > 0) {
      bulk_load(at + static_cast<uint32_t>(a.side_offset + done * a.entry_bytes),
                a.sides + (index * kTileRows + static_cast<size_t>(row)) * static_cast<size_t>(a.entry_bytes),
                static_cast<uint32_t>(count * a.entry_bytes), barrier);
    }
    n += count;
  }
}

// Asks for the activations of one stage: of the shard's tile-th tile.
EADEM_DEVICE void load_rows(const StreamArgs& a, const Ring& ring, const Item& item, int shard, int tile, int stage) {
  const uint32_t at = ring.stage_at(a, stage), barrier = ring.full_at(stage);
  tensor_load(at + static_cast<uint32_t>(a.x_offset), &a.x, barrier, shard * a.shard_k + tile * a.tile_k, item.row);
  if (a.x_side_bytes > 0) {
    const int64_t block = static_cast<int64_t>(item.row / a.block_rows) * a.k_tiles + shard * a.shard_tiles + tile;
    bulk_load(at + static_cast<uint32_t>(a.x_side_offset), a.x_side + block * (a.x_side_bytes / 4),
              static_cast<uint32_t>(a.x_side_bytes), barrier);
  }
}

// One thread. rank: of the CTA in its cluster, which takes as many shards as each other. first_item, step: the items of
// the cluster. The weights of the first stages are under way before
// the kernels that write the activations are done.
EADEM_DEVICE void produce(const StreamArgs& a, const Ring& ring, int rank, int first_item, int step) {
  const int shards = a.shape.shards / a.split, first_shard = rank * shards;
  const int early = min(a.stages, shards * a.shard_tiles);
  const Item first = item_at(a, first_item);
  for (int i = 0; i < early; ++i) load_weights(a, ring, first, first_shard * a.shard_tiles + i, i);
  wait_for_prerequisites();
  RingCursor cursor;
  int count = 0;
  for (int index = first_item; index < a.items; index += step) {
    const Item item = item_at(a, index);
    for (int shard = first_shard; shard < first_shard + shards; ++shard) {
      for (int tile = 0; tile < a.shard_tiles; ++tile, ++count) {
        if (count >= early) {
          barrier_wait(ring.empty_at(cursor.stage), cursor.parity ^ 1);
          load_weights(a, ring, item, shard * a.shard_tiles + tile, cursor.stage);
        }
        load_rows(a, ring, item, shard, tile, cursor.stage);
        cursor.advance(a.stages);
      }
    }
  }
}

// ---- What consumers share -------------------------------------------------------------------------------------------

// y = sum (+ bias), or y + that.
EADEM_DEVICE void store_output(const StreamArgs& a, int row, int n, float sum) {
  if (row >= a.rows || n >= a.shape.n) return;
  if (a.bias != nullptr) sum = numerics::add_f32(sum, a.bias[n]);
  float* y = a.y + row * a.y_stride + n;
  *y = a.add_to_y ? numerics::add_f32(*y, sum) : sum;
}

// Sets up the ring of a CTA; all threads. consumers: arrivals that free a stage.
EADEM_DEVICE Ring make_ring(const StreamArgs& a, uint64_t* barriers, uint32_t base, int consumers) {
  const uint32_t full = shared_address(barriers);
  const Ring ring{base, full, full + 8 * kMaxStages};
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.stages; ++i) {
      barrier_init(ring.full_at(i), 1);
      barrier_init(ring.empty_at(i), consumers);
    }
  }
  return ring;
}

}  // namespace
}  // namespace eadem::kernels::cuda
