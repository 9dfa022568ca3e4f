// Descriptions of arrays in device memory that the TMA unit reads and writes by boxes.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

namespace eadem::kernels::cuda {

enum class TensorElement { kBf16, kFloat32, kUint8 };
enum class TensorSwizzle { k128Bytes, kNone };

// sizes: elements of each dimension, innermost first. strides: bytes of all dimensions but the first, multiples of 16.
// box: elements of a box, at most 256 a side; it lies in shared memory with the 128-byte swizzle, for which its
// innermost side is 128 bytes, or as it is. What a box has beyond the array reads as zeros and is not written. base:
// 16-byte aligned.
CUtensorMap make_tensor_map(const void* base, TensorElement element, std::initializer_list<uint64_t> sizes,
                            std::initializer_list<uint64_t> strides, std::initializer_list<uint32_t> box,
                            TensorSwizzle swizzle = TensorSwizzle::k128Bytes);

}  // namespace eadem::kernels::cuda
