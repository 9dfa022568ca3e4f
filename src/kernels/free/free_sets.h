// Kernel sets that sum in free order: the control that an invariance test must fail on, and the other half of a paired
// measurement of what the contract costs. They are in no list of sets and nobody's default.
#pragma once

#include "kernels/kernel_set.h"

namespace eadem::kernels {

#if defined(__x86_64__)
extern const KernelSet kAvx512FreeSet;
extern const KernelSet kAvx2FreeSet;
#elif defined(__aarch64__)
extern const KernelSet kNeonFreeSet;
#endif

// The twin of a set of the contract, or null where it has none (the reference). Sets that differ in their tiles and dot
// products alone share one, which uses neither. Its numerics are fma32 and int8.
const KernelSet* free_order_twin(const KernelSet& set);

}  // namespace eadem::kernels
