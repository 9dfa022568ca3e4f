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

// Outputs and rows of one CTA. n_end: of the outputs that lie in tiles. Gated layers: the gates.
struct Item {
  int n, n_end, row;
};

EADEM_DEVICE Item item_at(const StreamArgs& a, int index) {
  const int outputs = a.gated ? a.item_outputs / 2 : a.item_outputs;
  const int end = a.gated ? a.shape.n / 2 : row_tiles(a.shape) * kTileRows, n = index / a.row_blocks * outputs;
  return {n, min(n + outputs, end), index % a.row_blocks * a.block_rows};
}

// ---- The producer ---------------------------------------------------------------------------------------------------

// Where an item's weights lie: outputs up to the end of a row of tiles, then those in the next. The ups of a gated
// layer, whose halves are whole rows of tiles, lie as its gates do, to_ups bytes on.
struct Source {
  const std::byte *first, *second;            // in the tiles of k's first
  const std::byte *first_side, *second_side;  // int8: their entries
  size_t to_ups;
  uint32_t first_rows, second_rows, weight_bytes;  // the last: bytes of weights that a stage gets
};

EADEM_DEVICE Source source_of(const StreamArgs& a, const Item& item) {
  const int row = item.n % kTileRows, outputs = item.n_end - item.n, first_rows = min(outputs, kTileRows - row);
  const size_t tile = static_cast<size_t>(item.n / kTileRows) * static_cast<size_t>(a.k_tiles);
  const std::byte* tiles = a.weights + tile * kTileBytes;
  const std::byte* sides = a.sides + tile * static_cast<size_t>(kTileRows * a.entry_bytes);
  Source source;
  source.first = tiles + row * kTileRowBytes;
  source.second = tiles + static_cast<size_t>(a.k_tiles) * kTileBytes;
  source.first_side = sides + row * a.entry_bytes;
  source.second_side = sides + static_cast<size_t>(a.k_tiles) * static_cast<size_t>(kTileRows * a.entry_bytes);
  source.to_ups = a.gated ? tile_offset(a.shape, a.shape.n / 2 / kTileRows, 0) : 0;
  source.first_rows = static_cast<uint32_t>(first_rows);
  source.second_rows = static_cast<uint32_t>(outputs - first_rows);
  source.weight_bytes = static_cast<uint32_t>((a.gated ? 2 : 1) * outputs * (kTileRowBytes + a.entry_bytes));
  return source;
}

// Asks for an item's rows of tiles that lie `offset` bytes behind the source.
EADEM_DEVICE void load_tile_rows(const Source& source, uint32_t at, uint32_t barrier, size_t offset) {
  const uint32_t first_bytes = source.first_rows * kTileRowBytes;
  bulk_load(at, source.first + offset, first_bytes, barrier);
  if (source.second_rows > 0) {
    bulk_load(at + first_bytes, source.second + offset, source.second_rows * kTileRowBytes, barrier);
  }
}

EADEM_DEVICE uint32_t row_bytes(const StreamArgs& a) { return static_cast<uint32_t>(a.x_bytes + a.x_side_bytes); }

// Asks for the weights of one stage, and says how many bytes it will get from this warp.
EADEM_DEVICE void load_weights(const StreamArgs& a, const Source& source, uint32_t at, uint32_t barrier, int tile) {
  barrier_expect(barrier, source.weight_bytes + (a.producers == 1 ? row_bytes(a) : 0));
  const size_t offset = static_cast<size_t>(tile) * kTileBytes;
  load_tile_rows(source, at, barrier, offset);
  if (a.gated) {
    const auto ups = static_cast<uint32_t>(a.item_outputs / 2 * kTileRowBytes);
    load_tile_rows(source, at + ups, barrier, offset + source.to_ups);
  }
  if (a.entry_bytes > 0) {
    const auto entry = static_cast<uint32_t>(a.entry_bytes);
    const size_t side = static_cast<size_t>(tile) * (kTileRows * entry);
    const uint32_t to = at + static_cast<uint32_t>(a.side_offset), bytes = source.first_rows * entry;
    bulk_load(to, source.first_side + side, bytes, barrier);
    if (source.second_rows > 0) {
      bulk_load(to + bytes, source.second_side + side, source.second_rows * entry, barrier);
    }
  }
}

// Asks for the activations of one stage.
EADEM_DEVICE void load_rows(const StreamArgs& a, const Item& item, uint32_t at, uint32_t barrier, int tile) {
  // A shard's last tile may reach beyond it; the next shard begins with a tile of its own.
  const int k = a.shard_k == a.shard_tiles * a.tile_k
                    ? tile * a.tile_k
                    : tile / a.shard_tiles * a.shard_k + tile % a.shard_tiles * a.tile_k;
  tensor_load(at + static_cast<uint32_t>(a.x_offset), &a.x, barrier, k, item.row);
  if (a.x_side_bytes > 0) {
    const int64_t block = static_cast<int64_t>(item.row / a.block_rows) * a.k_tiles + tile;
    bulk_load(at + static_cast<uint32_t>(a.x_side_offset), a.x_side + block * (a.x_side_bytes / 4),
              static_cast<uint32_t>(a.x_side_bytes), barrier);
  }
}

// A warp, of which a.lanes lanes take a tile each at a time: a single thread takes too long over the instructions of a
// tile. rank: of the CTA in its cluster, which takes as many shards as each other. first_item, step: the items of the
// cluster. weights, rows: what the warp brings. The weights of the first stages are under way before the kernels that
// write the activations are done.
EADEM_DEVICE void produce(const StreamArgs& a, const Ring& ring, int rank, int first_item, int step, bool weights,
                          bool rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane >= a.lanes) return;
  const int tiles = a.k_tiles / a.split, first_tile = rank * tiles, early = weights ? min(a.stages, tiles) : 0;
  Item item = item_at(a, first_item);
  Source source = source_of(a, item);
  for (int i = lane; i < early; i += a.lanes) {
    load_weights(a, source, ring.stage_at(a, i), ring.full_at(i), first_tile + i);
  }
  if (rows) wait_for_prerequisites();
  int stage = lane, tile = lane, index = first_item;
  uint32_t parity = 0;
  for (bool asked = lane < early;; asked = asked && stage < early && parity == 0) {
    if (tile >= tiles) {
      asked = false;
      while (tile >= tiles) tile -= tiles, index += step;
      if (index >= a.items) return;
      item = item_at(a, index);
      source = source_of(a, item);
    }
    const uint32_t at = ring.stage_at(a, stage), barrier = ring.full_at(stage);
    if (!asked) {
      barrier_wait(ring.empty_at(stage), parity ^ 1);
      if (weights) load_weights(a, source, at, barrier, first_tile + tile);
    }
    if (rows) {
      if (!weights) barrier_expect(barrier, row_bytes(a));
      load_rows(a, item, at, barrier, first_tile + tile);
    }
    tile += a.lanes, stage += a.lanes;
    if (stage >= a.stages) stage -= a.stages, parity ^= 1;
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

// Sets up the ring of a CTA; all threads. consumers: warps that free a stage together.
EADEM_DEVICE Ring make_ring(const StreamArgs& a, uint64_t* barriers, uint32_t base, int consumers) {
  const uint32_t full = shared_address(barriers);
  const Ring ring{base, full, full + 8 * kMaxStages};
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.stages; ++i) {
      barrier_init(ring.full_at(i), a.producers);
      barrier_init(ring.empty_at(i), group_arrivals(consumers, 32));
    }
  }
  return ring;
}

}  // namespace
}  // namespace eadem::kernels::cuda
