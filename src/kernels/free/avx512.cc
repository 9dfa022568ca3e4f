// The free-order twin of the kernel set of AVX-512.
#include "kernels/free/free_order.h"
#include "kernels/free/free_sets.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kAvx512FreeSet = cpu::free_order_set("avx512-free", avx512_supported);

}  // namespace eadem::kernels
