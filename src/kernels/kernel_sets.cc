#include "kernels/sets.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace eadem::kernels {
namespace {

constexpr const KernelSet* kSets[] = {
#if defined(__x86_64__)
    &kAmxSet,       &kAvx512Bf16Set, &kAvx512Set, &kAvx2VnniSet, &kAvx2Set,
#elif defined(__aarch64__)
    &kNeonDotprodSet,
    &kNeonSet,
#endif
    &kReferenceSet,
};

#if defined(__x86_64__)
// Linux gives the tiles' 8 KiB of state to a process that asks for it, for all its threads. False where it does not.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}
#endif

}  // namespace

#if defined(__x86_64__)
bool amx_supported() {
  return avx512_bf16_supported() && __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8") &&
         may_use_tiles();
}
bool avx512_bf16_supported() {
  return avx512_supported() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}
bool avx512_supported() {
  return avx2_supported() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool avx2_vnni_supported() { return avx2_supported() && __builtin_cpu_supports("avxvnni"); }
bool avx2_supported() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
// Its fma is the machine's: the C library's stand-in gives the same bits, far too slowly to be of use.
bool reference_supported() { return __builtin_cpu_supports("fma"); }
#else
bool neon_dotprod_supported() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
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
