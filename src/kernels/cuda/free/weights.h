// Weights of linear layers in free order: operands [n][k_padded], row after row, as a library wants them. int8 is made
// bf16 when it is packed: no library takes a scale for every 32 or 128 elements, so engines without kernels of their
// own for a format of weights expand it and multiply in bf16.
#pragma once

#include <cstddef>

#include "kernels/kernel_set.h"

namespace eadem::kernels::cuda {

// KernelSet's linear_bytes, pack_operands and pack_int8, over host memory.
size_t free_linear_bytes(const LinearShape& shape);
void free_pack_operands(const LinearShape& shape, int n, const uint16_t* operands, std::byte* weights);
void free_pack_int8(const LinearShape& shape, int n, const int8_t* q, const float* scale, const float* minimum,
                    std::byte* weights);

}  // namespace eadem::kernels::cuda
