// Descriptions of arrays in device memory that the TMA unit reads and writes by boxes.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace eadem::kernels::cuda {

enum class TensorElement { kBf16, kFloat32, kUint8 };

// sizes: elements of each dimension, innermost first. strides: bytes of all dimensions but the first, multiples of 16.
// box: elements of a box; its innermost side is 128 bytes, and boxes lie in shared memory with the 128-byte swizzle.
// What a box has beyond the array reads as zeros and is not written. base: 16-byte aligned.
CUtensorMap make_tensor_map(const void* base, TensorElement element, std::initializer_list<uint64_t> sizes,
                            std::initializer_list<uint64_t> strides, std::initializer_list<uint32_t> box);

}  // namespace eadem::kernels::cuda
