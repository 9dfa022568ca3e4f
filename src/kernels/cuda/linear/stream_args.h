// What the kernels of stream.cuh get.
#pragma once

#include <cuda.h>

#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

inline constexpr int kMaxStages = 40;

struct StreamArgs {
  CUtensorMap x;  // rows x k_padded, boxes of [block rows][128 bytes]
  LinearShape shape;
  const std::byte* weights = nullptr;
  const std::byte* sides = nullptr;    // int8: the scales among the weights
  const float* x_side = nullptr;       // int8: [row block][tile of k][entries of a stage]
  const uint16_t* own_rows = nullptr;  // int8: the rows' operands, where each CTA quantises them by itself
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int rows = 0;
  int shard_k = 0, shard_tiles = 0, tile_k = 0, k_tiles = 0;  // layout.h's, of the shape
  int entry_bytes = 0;                                        // int8: of an output's entry
  int block_rows = 0;                                         // rows of a block
  int outputs = 0;                                            // outputs of a warpgroup, or of a warp
  int item_outputs = 0;                                       // outputs of an item: a multiple of 8
  int row_blocks = 0;                                         // ceil(rows / block_rows)
  int items = 0;            // of a cluster; row blocks of the same outputs follow each other
  int split = 1;            // CTAs of a cluster that share out the shards
  int threads = 0;          // that compute
  int workers = 0;          // threads that compute or quantise
  int producers = 1;        // warps: one for all, or one for the weights and one for the activations
  int stages = 0;           // of the ring
  int lanes = 1;            // of a producer warp that copy
  int x_offset = 0;         // in a stage, in bytes
  int x_bytes = 0;          // of a stage
  int side_offset = 0;      // int8
  int x_side_offset = 0;    // int8
  int x_side_bytes = 0;     // int8, of a stage
  int stage_bytes = 0;      // a multiple of 1,024
  int exchange_offset = 0;  // behind the ring: where partial sums are exchanged
  int spare_bytes = 0;      // there
  // Behind that: own rows [tile][own_rows_kept][128] as those of a stage, then their scales [tile][own_rows_kept]. Of
  // one row: as it is, and two scales, equal.
  int own_rows_offset = 0, own_rows_kept = 0;
  int own_tile_bytes = 0, own_scale_bytes = 0;  // of a tile
  bool add_to_y = false;
  // A layer of n / 2 gates and then n / 2 ups: half of an item's outputs are gates, the others their ups.
  bool gated = false;
  uint16_t* operands = nullptr;  // instead of y
  int64_t operands_stride = 0;
  bool* bad = nullptr;
};

}  // namespace eadem::kernels::cuda
