#include "kernels/cuda/free/device.h"

#include "kernels/cuda/free/attention.h"
#include "kernels/cuda/free/weights.h"

namespace eadem::kernels::cuda {

Result<void> FreeOrderDevice::start() {
  EADEM_RETURN_IF_ERROR(CudaDevice::start());
  packing_.name = "sm_90a-free";
  packing_.free_order = true;
  packing_.linear_bytes = free_linear_bytes;
  packing_.pack_operands = free_pack_operands;
  packing_.pack_int8 = free_pack_int8;
  auto opened = CublasLt::open();
  if (!opened.ok())
    return Error{"mode free on a CUDA device computes linear layers by cuBLASLt: " + opened.error().message};
  library_ = std::move(opened).value();
  return {};
}

FreeOrderDevice::~FreeOrderDevice() {
  if (library_ == nullptr) return;
  wait();  // for the kernels that use its working memory
  library_.reset();
}

void FreeOrderDevice::linear(const LinearCall& call, int rows) {
  enter();
  const LinearShape& shape = *call.shape;
  Matmul matmul;
  matmul.rows = rows, matmul.n = shape.n, matmul.k = shape.k_padded;
  matmul.x = call.x.operands;
  matmul.w = call.weights;
  matmul.bias = call.bias;
  matmul.y = call.y, matmul.y_stride = call.y_stride;
  matmul.add_to_y = call.add_to_y;
  library_->run(stream(), matmul);
  launched("linear");
}

void FreeOrderDevice::attention(const AttentionShape& shape, const DeviceAttentionCall& call) {
  enter();
  AttentionMemory* const memory = memory_of(shape);
  EADEM_CHECK(memory != nullptr && call.rows <= memory->max_rows);
  free_attention(stream(), facts(), shape, call, memory->max_positions, memory->scratch.data());
  launched("attention");
}

size_t FreeOrderDevice::linear_needs(const LinearShape&, int) const { return 0; }

size_t FreeOrderDevice::attention_needs(const AttentionMemory& memory) const {
  return free_attention_scratch_bytes(facts(), memory.shape);
}

}  // namespace eadem::kernels::cuda
