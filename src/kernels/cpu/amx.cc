// The kernel set of Intel AMX (bf16 and int8 tiles) beside AVX-512 and VNNI.
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAmxSet = cpu::cpu_set("amx", amx_supported);

}  // namespace eadem::kernels
