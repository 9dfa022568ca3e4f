// Element types of tensors in model files, block-quantised ones (GGUF) included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace eadem {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kI32,
  kI64,
  kU8
};

struct DTypeInfo {
  std::string_view name;
  int block;  // elements a block
  int bytes;  // bytes a block
};

constexpr DTypeInfo info(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {"F32", 1, 4};
    case DType::kF16: return {"F16", 1, 2};
    case DType::kBF16: return {"BF16", 1, 2};
    case DType::kQ8_0: return {"Q8_0", 32, 34};
    case DType::kQ4_0: return {"Q4_0", 32, 18};
    case DType::kQ4_1: return {"Q4_1", 32, 20};
    case DType::kQ5_0: return {"Q5_0", 32, 22};
    case DType::kQ5_1: return {"Q5_1", 32, 24};
    case DType::kQ4_K: return {"Q4_K", 256, 144};
    case DType::kQ5_K: return {"Q5_K", 256, 176};
    case DType::kQ6_K: return {"Q6_K", 256, 210};
    case DType::kI32: return {"I32", 1, 4};
    case DType::kI64: return {"I64", 1, 8};
    case DType::kU8: return {"U8", 1, 1};
  }
  return {"?", 1, 0};
}

}  // namespace eadem
