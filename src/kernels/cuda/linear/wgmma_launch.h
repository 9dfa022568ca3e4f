// Between wgmma.cc, which decides and describes, and the files that hold the kernels.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace eadem::kernels::cuda {

inline constexpr int kWgmmaK = 64;                                      // k of a ring stage
inline constexpr int kWgmmaGatedRows = 128, kWgmmaGatedColumns = 256;   // of a tile of gates and ups
inline constexpr int kWgmmaBoxColumns = 32, kWgmmaBoxBytes = 64 * 128;  // a box of y: 64 rows of so many outputs

struct WgmmaArgs {
  const std::byte* weights = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t y_stride = 0;
  int rows = 0, n = 0;
  int weight_tiles = 0;  // of 128 outputs
  int k_tiles = 0;       // of the packed matrix, all shards
  int shard_k = 0;       // elements of a shard in x
  int shard_tiles = 0;   // k blocks of a shard
  int row_tiles = 0, column_tiles = 0;
  bool add_to_y = false;
  bool boxes = false;   // y can be read and written by tensor map
  bool* bad = nullptr;  // gated: [rows]
};

struct WgmmaLaunch {
  CUtensorMap x, x_tail, y;  // x by boxes of a tile's rows; tail: of the rest. Gated: y of operands
  WgmmaArgs args;
  int blocks = 0;  // of threads; in clusters of two where the kernel splits the shards
};
using WgmmaKernel = void (*)(cudaStream_t, const WgmmaLaunch&);

// The kernel of a chain over tiles of that many columns: 48, 64, 96, 128, 192 or (128 rows) 256.
WgmmaKernel wgmma_chain_kernel(int rows, int columns);
// The kernel of a chain of gates and ups that gives the operands of SwiGLU.
WgmmaKernel wgmma_gated_kernel();
// The kernel of that many shards: 128 rows x 128 columns, whole or (eight shards) split over a cluster; 64 columns,
// split.
WgmmaKernel wgmma_tree_kernel(int rows, int columns, int shards, bool split);

}  // namespace eadem::kernels::cuda
