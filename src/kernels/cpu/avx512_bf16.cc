// The kernel set of AVX-512 with BF16 and VNNI.
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx512Bf16Set = cpu::cpu_set("avx512_bf16", avx512_bf16_supported);

}  // namespace eadem::kernels
