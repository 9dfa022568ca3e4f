#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warps.cuh"

namespace eadem::kernels::cuda {
namespace {

// By scale groups of a tile of 128.
template <int kRows>
using OneGroup = WarpInt8<kRows, 1>;
template <int kRows>
using FourGroups = WarpInt8<kRows, 4>;

}  // namespace

const void* int8_warps_kernel(int group, int block_rows, bool tree) {
  return group == 128 ? stream_kernel_of<OneGroup>(block_rows, tree) : stream_kernel_of<FourGroups>(block_rows, tree);
}

}  // namespace eadem::kernels::cuda
