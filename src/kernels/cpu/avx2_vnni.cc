// The kernel set of AVX2 with VNNI.
#include "kernels/cpu/set.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx2VnniSet = cpu::cpu_set("avx2_vnni", avx2_vnni_supported);

}  // namespace eadem::kernels
