// cuBLASLt by its C functions, opened at run time: free order computes linear layers by it, and benches measure beside
// it. Nothing links it, and its header (cublasLt.h, where the meaning of names and numbers is told) need not be there.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/result.h"

namespace eadem::kernels::cuda {

// y[rows][n] = x[rows][k] w[n][k]^T (+ bias[n]) (+ y): bf16 operands, float32 sums in the library's order. All is
// device memory; rows of x and of w follow each other.
struct Matmul {
  int rows = 0, n = 0, k = 0;
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;  // may be null; float32 y alone
  void* y = nullptr;            // [rows][y_stride] float32, or bf16
  int64_t y_stride = 0;
  bool float32 = true;
  bool add_to_y = false;
};

class CublasLt {
 public:
  // For the calling thread's device. EADEM_CUBLASLT names the library; else it is looked for as libcublasLt.so.13 where
  // the system looks, in CUDA_HOME and in /usr/local/cuda. An Error says all that.
  static Result<std::unique_ptr<CublasLt>> open();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // "13.0.2"
  const std::string& version() const { return version_; }
  // By the algorithm that the library's heuristics put first for this shape, number of rows and alignment, which they
  // are asked once; it may split K over a working memory that all calls share, so calls belong on one stream. A call
  // that was made before may be captured in a graph.
  void run(cudaStream_t stream, const Matmul& call);

 private:
  struct Functions;
  struct Algorithm;
  // Shape, strides, types and alignments of a call.
  using Key = std::array<int64_t, 11>;

  CublasLt() = default;
  Result<void> load();
  Result<void> start();
  Algorithm& algorithm_of(const Matmul& call);
  void choose(const Matmul& call, const Key& key, Algorithm& algorithm);

  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
  std::string version_;
  std::mutex mutex_;
  std::map<Key, Algorithm> algorithms_;
};

}  // namespace eadem::kernels::cuda
