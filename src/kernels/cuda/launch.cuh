// How launchers start kernels and tell faults.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "core/check.h"

namespace eadem::kernels::cuda {

// After a launch: an impossible configuration is a bug of the launcher.
inline void check_launch() { EADEM_CHECK(cudaGetLastError() == cudaSuccess); }

// Lets kKernel have `bytes` of dynamic shared memory, once a device.
template <auto kKernel>
void allow_memory(int bytes) {
  static std::atomic<uint64_t> allowed{0};
  int device = 0;
  EADEM_CHECK(cudaGetDevice(&device) == cudaSuccess && device < 64);
  if (allowed.load(std::memory_order_relaxed) >> device & 1) return;
  EADEM_CHECK(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess);
  allowed.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
}

// Whether rows of n elements of `bytes` each keep a pointer at a multiple of 16 bytes.
inline bool aligned16(const void* p, int64_t n, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && n * bytes % 16 == 0;
}

}  // namespace eadem::kernels::cuda
