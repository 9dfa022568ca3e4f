// The kernel set of AVX2 and FMA.
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx2Set = cpu::cpu_set("avx2", avx2_supported);

}  // namespace eadem::kernels
