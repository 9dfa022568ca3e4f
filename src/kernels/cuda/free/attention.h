// Attention in free order, what engines without a contract do: few rows split their keys so as to fill the device
// (split_plan.h), many rows take them as one chain.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// As attention_scratch_bytes and attention of attention/attention.h, and as these to be called; but the bits of a row
// depend on the other rows. Products of any numerics are taken by the matrix instructions.
size_t free_attention_scratch_bytes(const DeviceFacts& facts, const AttentionShape& shape);
void free_attention(cudaStream_t stream, const DeviceFacts& facts, const AttentionShape& shape,
                    const DeviceAttentionCall& call, int64_t max_positions, void* scratch);

}  // namespace eadem::kernels::cuda
