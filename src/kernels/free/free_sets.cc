#include "kernels/free/free_sets.h"

#include "kernels/sets.h"

namespace eadem::kernels {

const KernelSet* free_order_twin([[maybe_unused]] const KernelSet& set) {
#if defined(__x86_64__)
  if (&set == &kAmxSet || &set == &kAvx512Bf16Set || &set == &kAvx512Set) return &kAvx512FreeSet;
  if (&set == &kAvx2VnniSet || &set == &kAvx2Set) return &kAvx2FreeSet;
#elif defined(__aarch64__)
  if (&set == &kNeonDotprodSet || &set == &kNeonSet) return &kNeonFreeSet;
#endif
  return nullptr;
}

}  // namespace eadem::kernels
