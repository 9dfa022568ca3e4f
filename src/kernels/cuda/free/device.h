// The CUDA device in free order (docs/cuda.md): weights row after row for cuBLASLt, attention split as the batch has
// it. Memory, queue, recordings and the ops that look at one row alone are the contract's.
#pragma once

#include <memory>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/device.h"

namespace eadem::kernels::cuda {

class FreeOrderDevice final : public CudaDevice {
 public:
  using CudaDevice::CudaDevice;
  ~FreeOrderDevice() override;
  Result<void> start() override;
  void linear(const LinearCall& call, int rows) override;
  bool fuses_swiglu(const LinearShape&, int) const override { return false; }  // its weights lie row after row
  void attention(const AttentionShape& shape, const DeviceAttentionCall& call) override;

 private:
  size_t linear_needs(const LinearShape& shape, int max_rows) const override;
  size_t attention_needs(const AttentionMemory& memory) const override;

  std::unique_ptr<CublasLt> library_;
};

}  // namespace eadem::kernels::cuda
