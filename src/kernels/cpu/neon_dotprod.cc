// The kernel set of 64-bit Arm with the dot products of int8 (Armv8.2).
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kNeonDotprodSet = cpu::cpu_set("neon_dotprod", neon_dotprod_supported);

}  // namespace eadem::kernels
