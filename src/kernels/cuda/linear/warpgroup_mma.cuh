// wgmma for 64 outputs x 8, 16, 32 or 64 rows: d += A B^T, both from shared memory under the 128-byte swizzle; A the
// weights (64 outputs), B the activations (kRows rows). Thread t of the warpgroup holds, for j < kRows / 8, in
// d[4 j + 2 h + i] the output 16 (t / 32) + t % 32 / 4 + 8 h of row 8 j + 2 (t % 4) + i.
#pragma once

#include <cstdint>

namespace eadem::kernels::cuda {
namespace {

// clang-format off
#define EADEM_FRAGMENT_4(c, d, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define EADEM_FRAGMENT_8(c, d, i) EADEM_FRAGMENT_4(c, d, i), EADEM_FRAGMENT_4(c, d, i + 4)
#define EADEM_FRAGMENT_16(c, d, i) EADEM_FRAGMENT_8(c, d, i), EADEM_FRAGMENT_8(c, d, i + 8)
#define EADEM_FRAGMENT_32(c, d, i) EADEM_FRAGMENT_16(c, d, i), EADEM_FRAGMENT_16(c, d, i + 16)
#define EADEM_NUMBERS_4 "%0, %1, %2, %3"
#define EADEM_NUMBERS_8 EADEM_NUMBERS_4 ", %4, %5, %6, %7"
#define EADEM_NUMBERS_16 EADEM_NUMBERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define EADEM_NUMBERS_32 \
  EADEM_NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
// clang-format on

template <int kRows>
struct WarpgroupMma;

// a, b: operand descriptors; add: 0 begins at zero, 1 adds to d. operands: k16 bf16; int8: k32.
#define EADEM_WARPGROUP_MMA(kRows, kRegisters, a_at, b_at, add_at)                                               \
  template <>                                                                                                    \
  struct WarpgroupMma<kRows> {                                                                                   \
    static __device__ __forceinline__ void operands(float (&d)[kRegisters], uint64_t a, uint64_t b, int add) {   \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #kRows  \
                   "k16.f32.bf16.bf16 {" EADEM_NUMBERS_##kRegisters "}, %" a_at ", %" b_at ", p, 1, 1, 0, 0;\n}" \
                   : EADEM_FRAGMENT_##kRegisters("+f", d, 0)                                                     \
                   : "l"(a), "l"(b), "r"(add));                                                                  \
    }                                                                                                            \
    static __device__ __forceinline__ void int8(int32_t (&d)[kRegisters], uint64_t a, uint64_t b, int add) {     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #kRows  \
                   "k32.s32.s8.s8 {" EADEM_NUMBERS_##kRegisters "}, %" a_at ", %" b_at ", p;\n}"                 \
                   : EADEM_FRAGMENT_##kRegisters("+r", d, 0)                                                     \
                   : "l"(a), "l"(b), "r"(add));                                                                  \
    }                                                                                                            \
  }

EADEM_WARPGROUP_MMA(8, 4, "4", "5", "6");
EADEM_WARPGROUP_MMA(16, 8, "8", "9", "10");
EADEM_WARPGROUP_MMA(32, 16, "16", "17", "18");
EADEM_WARPGROUP_MMA(64, 32, "32", "33", "34");

#undef EADEM_WARPGROUP_MMA
#undef EADEM_FRAGMENT_4
#undef EADEM_FRAGMENT_8
#undef EADEM_FRAGMENT_16
#undef EADEM_FRAGMENT_32
#undef EADEM_NUMBERS_4
#undef EADEM_NUMBERS_8
#undef EADEM_NUMBERS_16
#undef EADEM_NUMBERS_32

}  // namespace
}  // namespace eadem::kernels::cuda
