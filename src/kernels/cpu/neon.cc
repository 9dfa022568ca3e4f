// The kernel set of 64-bit Arm, whose Advanced SIMD is always there.
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kNeonSet = cpu::cpu_set("neon", neon_supported);

}  // namespace eadem::kernels
