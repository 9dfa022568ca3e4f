// How launchers start kernels and tell faults.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "core/check.h"
#include "kernels/cuda/launch_config.h"

namespace eadem::kernels::cuda {

// Starts a kernel as LaunchConfig says.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  const LaunchConfig config(grid, threads, shared_bytes, stream);
  EADEM_CHECK(cudaLaunchKernelEx(config.get(), kernel, arguments...) == cudaSuccess);
}

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

inline bool is_aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }
// Whether rows of n elements of `bytes` each keep a pointer at a multiple of 16 bytes.
inline bool aligned16(const void* p, int64_t n, int64_t bytes) { return is_aligned(p, 16) && n * bytes % 16 == 0; }

}  // namespace eadem::kernels::cuda
