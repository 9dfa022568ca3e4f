#include "kernels/cuda/attention/prefill.cuh"

namespace eadem::kernels::cuda {
namespace {

using Heads64 = PrefillLayout<1, 3, 4, 4, PrefillTotals::kShared>;
using Heads128 = PrefillLayout<2, 3, 2, 3, PrefillTotals::kShared>;
using Heads256 = PrefillLayout<4, 2, 2, 2, PrefillTotals::kGlobal>;
static_assert(Heads64::kGroups == prefill_groups(64) && Heads128::kGroups == prefill_groups(128) &&
              Heads256::kGroups == prefill_groups(256));

}  // namespace

PrefillKernel prefill_kernel(int head) {
  switch (head) {
    case 64: return launch_prefill<Heads64>;
    case 128: return launch_prefill<Heads128>;
    case 256: return launch_prefill<Heads256>;
    default: return nullptr;
  }
}

}  // namespace eadem::kernels::cuda
