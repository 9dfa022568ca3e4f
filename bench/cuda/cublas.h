// cuBLASLt's own choice of a kernel, the peer of linear layers.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "kernels/cuda/cublas_lt.h"

namespace eadem::bench {

class Cublas {
 public:
  Cublas() {
    auto opened = kernels::cuda::CublasLt::open();
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(1);
    }
    library_ = std::move(opened).value();
  }
  // y[m][n] = x[m][k] w[n][k]^T (+ y): bf16 operands, float32 sums; y in float32, or in bf16.
  void run(cudaStream_t stream, int m, int n, int k, const void* x, const void* w, void* y, bool float32,
           bool add_to_y) const {
    kernels::cuda::Matmul call;
    call.rows = m, call.n = n, call.k = k;
    call.x = x, call.w = w;
    call.y = y, call.y_stride = n;
    call.float32 = float32, call.add_to_y = add_to_y;
    library_->run(stream, call);
  }

 private:
  std::unique_ptr<kernels::cuda::CublasLt> library_;
};

}  // namespace eadem::bench
