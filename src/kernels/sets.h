// The kernel sets of this build, for the registry alone. What a set needs of the machine is asked in kernel_sets.cc,
// which is compiled for the base architecture: a set's own translation unit may not run before the answer.
#pragma once

#include "kernels/kernel_set.h"

namespace eadem::kernels {

#if defined(__x86_64__)
bool amx_supported();
bool avx512_bf16_supported();
bool avx512_supported();
bool avx2_vnni_supported();
bool avx2_supported();
extern const KernelSet kAmxSet;
extern const KernelSet kAvx512Bf16Set;
extern const KernelSet kAvx512Set;
extern const KernelSet kAvx2VnniSet;
extern const KernelSet kAvx2Set;
#elif defined(__aarch64__)
bool neon_dotprod_supported();
bool neon_supported();
extern const KernelSet kNeonDotprodSet;
extern const KernelSet kNeonSet;
#endif

bool reference_supported();
extern const KernelSet kReferenceSet;

}  // namespace eadem::kernels
