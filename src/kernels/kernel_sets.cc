#include "kernels/sets.h"

namespace eadem::kernels {
namespace {

constexpr const KernelSet* kSets[] = {
#if defined(__x86_64__)
    &kAvx512Set,
    &kAvx2Set,
#elif defined(__aarch64__)
    &kNeonSet,
#endif
    &kReferenceSet,
};

}  // namespace

#if defined(__x86_64__)
bool avx512_supported() {
  return avx2_supported() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool avx2_supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
// Its fma is the machine's: the C library's stand-in gives the same bits, far too slowly to be of use.
bool reference_supported() { return __builtin_cpu_supports("fma"); }
#else
bool neon_supported() { return true; }
bool reference_supported() { return true; }
#endif

std::span<const KernelSet* const> all_kernel_sets() { return kSets; }

const KernelSet* find_kernel_set(std::string_view name) {
  for (const KernelSet* set : kSets) {
    if (set->name == name) return set;
  }
  return nullptr;
}

const KernelSet& best_kernel_set() {
  for (const KernelSet* set : kSets) {
    if (set->supported()) return *set;
  }
  return kReferenceSet;
}

}  // namespace eadem::kernels
