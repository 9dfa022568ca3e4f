#include "kernels/cuda/linear/stream_kernel.cuh"
#include "kernels/cuda/linear/warps.cuh"

namespace eadem::kernels::cuda {
namespace {

// By scale groups of a tile of 128.
template <int kGroups, bool kMinimum, bool kOwnRows = false>
struct Of {
  template <int kRows>
  using Chains = WarpInt8<kRows, kGroups, kMinimum, kOwnRows>;
};

}  // namespace

const void* int8_own_rows_kernel(int rows, int levels) {
  return stream_kernel_of<Of<1, false, true>::Chains, 8, 16>(rows, levels);
}

const void* int8_warps_kernel(int group, bool minimum, int rows, int levels) {
  if (group == 128) {
    return minimum ? stream_kernel_of<Of<1, true>::Chains, 8, 32>(rows, levels)
                   : stream_kernel_of<Of<1, false>::Chains, 8, 32>(rows, levels);
  }
  return minimum ? stream_kernel_of<Of<4, true>::Chains, 8, 32>(rows, levels)
                 : stream_kernel_of<Of<4, false>::Chains, 8, 32>(rows, levels);
}

}  // namespace eadem::kernels::cuda
