// Attention of many rows in free order: the contract's kernel with one chain over all keys in place of splits. The
// shared memory that the sums of splits take there holds more keys and values in flight.
#include "kernels/cuda/attention/prefill.cuh"

namespace eadem::kernels::cuda {
namespace {

using Heads64 = PrefillLayout<1, prefill_groups(64), 8, 8, PrefillTotals::kNone>;
using Heads128 = PrefillLayout<2, prefill_groups(128), 5, 5, PrefillTotals::kNone>;
using Heads256 = PrefillLayout<4, prefill_groups(256), 2, 2, PrefillTotals::kNone>;

}  // namespace

PrefillKernel free_prefill_kernel(int head) {
  switch (head) {
    case 64: return launch_prefill<Heads64>;
    case 128: return launch_prefill<Heads128>;
    case 256: return launch_prefill<Heads256>;
    default: return nullptr;
  }
}

}  // namespace eadem::kernels::cuda
