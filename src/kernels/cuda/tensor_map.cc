#include "kernels/cuda/tensor_map.h"

#include <cuda_runtime.h>

#include "core/check.h"

namespace eadem::kernels::cuda {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Through the runtime, so that nothing links the driver's library.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  EADEM_CHECK(status == cudaSuccess && found == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Encode>(function);
}

CUtensorMapDataType data_type(TensorElement element) {
  switch (element) {
    case TensorElement::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorElement::kFloat32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace

CUtensorMap make_tensor_map(const void* base, TensorElement element, std::initializer_list<uint64_t> sizes,
                            std::initializer_list<uint64_t> strides, std::initializer_list<uint32_t> box,
                            TensorSwizzle swizzle) {
  static const Encode encode = find_encode();
  const cuuint32_t steps[3] = {1, 1, 1};
  EADEM_CHECK(sizes.size() <= 3 && strides.size() + 1 == sizes.size() && box.size() == sizes.size());
  CUtensorMap map;
  const CUresult status =
      encode(&map, data_type(element), static_cast<cuuint32_t>(sizes.size()), const_cast<void*>(base), sizes.begin(),
             strides.begin(), box.begin(), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle == TensorSwizzle::kNone ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  EADEM_CHECK(status == CUDA_SUCCESS);
  return map;
}

}  // namespace eadem::kernels::cuda
