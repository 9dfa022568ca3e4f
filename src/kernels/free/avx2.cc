// The free-order twin of the kernel set of AVX2 and FMA.
#include "kernels/free/free_order.h"
#include "kernels/free/free_sets.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx2FreeSet = cpu::free_order_set("avx2-free", avx2_supported);

}  // namespace eadem::kernels
