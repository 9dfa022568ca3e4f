// Whole numbers that many threads add to: exact in any order, unlike floating-point sums, which no kernel may build so.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper.cuh"

namespace eadem::kernels::cuda {

// Adds 1 to a count in device memory; what it was.
EADEM_DEVICE uint32_t count_one(uint32_t* count) {
  uint32_t before;
  asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}
// The same in shared memory.
EADEM_DEVICE int shared_count_one(int* count) {
  int before;
  asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(before) : "r"(shared_address(count)) : "memory");
  return before;
}
// Adds to a sum in shared memory.
EADEM_DEVICE void shared_add(unsigned long long* sum, unsigned long long x) {
  asm volatile("red.shared.add.u64 [%0], %1;" ::"r"(shared_address(sum)), "l"(x) : "memory");
}

}  // namespace eadem::kernels::cuda
