// The free-order twin of the kernel set of Arm's NEON.
#include "kernels/free/free_order.h"
#include "kernels/free/free_sets.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kNeonFreeSet = cpu::free_order_set("neon-free", neon_supported);

}  // namespace eadem::kernels
