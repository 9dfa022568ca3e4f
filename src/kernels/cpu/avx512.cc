// The kernel set of AVX-512 (F, BW, VL, DQ).
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx512Set = cpu::cpu_set("avx512", avx512_supported);

}  // namespace eadem::kernels
