// cuBLAS by its C functions (cublas_v2.h), opened at run time: nothing else here needs it.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "core/check.h"

namespace eadem::bench {

class Cublas {
 public:
  // EADEM_CUBLAS names the library where the system does not find it.
  Cublas() {
    const char* path = std::getenv("EADEM_CUBLAS");
    void* library = dlopen(path != nullptr ? path : "libcublas.so.13", RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "no cuBLAS (%s): set EADEM_CUBLAS to libcublas.so.13\n", dlerror());
      std::exit(1);
    }
    const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"));
    set_stream_ = reinterpret_cast<int (*)(void*, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"));
    set_workspace_ = reinterpret_cast<int (*)(void*, void*, size_t)>(dlsym(library, "cublasSetWorkspace_v2"));
    gemm_ = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
    EADEM_CHECK(create(&handle_) == 0);
    EADEM_CHECK(cudaMalloc(&workspace_, kWorkspace) == cudaSuccess);
  }
  // y[m][n] = x[m][k] w[n][k]^T + beta y: bf16 operands, float32 sums; y in float32, or in bf16.
  void run(cudaStream_t stream, int m, int n, int k, const void* x, const void* w, void* y, bool float32,
           float beta) const {
    constexpr int kTransposed = 1, kPlain = 0, kBf16 = 14, kFloat = 0, kComputeFloat = 68, kDefault = -1;
    const float one = 1.0f;
    EADEM_CHECK(set_stream_(handle_, stream) == 0);
    EADEM_CHECK(set_workspace_(handle_, workspace_, kWorkspace) == 0);  // another stream takes another by itself
    EADEM_CHECK(gemm_(handle_, kTransposed, kPlain, n, m, k, &one, w, kBf16, k, x, kBf16, k, &beta, y,
                      float32 ? kFloat : kBf16, n, kComputeFloat, kDefault) == 0);
  }

 private:
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
  static constexpr size_t kWorkspace = size_t{64} << 20;
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  int (*set_stream_)(void*, cudaStream_t) = nullptr;
  int (*set_workspace_)(void*, void*, size_t) = nullptr;
  Gemm gemm_ = nullptr;
};

}  // namespace eadem::bench
