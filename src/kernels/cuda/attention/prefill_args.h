// What the prefill kernel is told, by value.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

inline constexpr int kPrefillRuns = 48, kPrefillTiles = 512;  // of one launch: its arguments must fit 4 KB

struct PrefillRun {
  int sequence = 0, row_begin = 0, rows = 0, first_position = 0;
};

// A tile of query rows, all heads: which run, and which of the run's tiles.
struct PrefillTile {
  uint16_t run = 0, index = 0;
};

struct PrefillArgs {
  CUtensorMap q;  // [rows][heads][head_padded], boxes of 64 rows x 64 elements
  DeviceKv kv;
  uint16_t* out = nullptr;
  int64_t out_stride = 0;
  bool* bad = nullptr;
  int* next_tile = nullptr;  // a counter, 0 at the start
  float* totals = nullptr;   // where the sums over splits do not fit shared memory
  int heads = 0, group = 0, head_size = 0;
  int window = 0;  // 0: none
  float c = 0.0f, inverse_c = 0.0f;
  int tile_count = 0;
  PrefillTile tiles[kPrefillTiles];  // longest first
  PrefillRun runs[kPrefillRuns];
};

using PrefillKernel = void (*)(cudaStream_t, const PrefillArgs&, int blocks);
// For heads of 64, 128 or 256 elements (padded).
PrefillKernel prefill_kernel(int head);
// The same in free order: no splits (free/prefill.cu).
PrefillKernel free_prefill_kernel(int head);
// Warpgroups of 64 query rows that have a tile.
constexpr int prefill_groups(int head) { return head == 256 ? 2 : 3; }
constexpr int prefill_rows(int head) { return 64 * prefill_groups(head); }

}  // namespace eadem::kernels::cuda
