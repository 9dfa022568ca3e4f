// numerics/operand.h's bf16_operand for device threads, without branches: of that header's form, a compiler makes two
// branches an element. All 2^32 floats give the same operand (tests/bits/cuda/test_cuda_math.cc).
#pragma once

#include <cstdint>

namespace eadem::kernels::cuda {

// x in the range of operands, not rounded yet; NaN becomes +0.
__device__ __forceinline__ float in_operand_range(float x) {
  float clamped;  // the smaller magnitude with the sign of x; NaN where x is
  asm("min.NaN.xorsign.abs.f32 %0, %1, %2;" : "=f"(clamped) : "f"(x), "f"(0x1p50f));
  return fabsf(clamped) >= 0x1p-50f ? clamped : 0.0f;
}
// The operands of two numbers, that of `low` in the lower half.
__device__ __forceinline__ uint32_t operand_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(in_operand_range(high)), "f"(in_operand_range(low)));
  return pair;
}

}  // namespace eadem::kernels::cuda
