// int8_quantise on the device: 16 operands a lane, a group by 2 or 8 neighbouring lanes of a whole warp.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "numerics/int8_reciprocal.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kQuantisedPerLane = 16;

struct QuantisedLane {
  uint4 q;      // 16 integers
  float scale;  // of the group
};

// Operands are finite, so as integers their magnitudes are in the same order.
EADEM_DEVICE QuantisedLane quantise_lane(const uint4 (&words)[2], int lanes) {
  const uint32_t x[8] = {words[0].x, words[0].y, words[0].z, words[0].w,
                         words[1].x, words[1].y, words[1].z, words[1].w};
  uint32_t pair = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) pair = __vmaxu2(pair, x[i] & 0x7fff7fffu);
  uint32_t largest = max(pair & 0xffffu, pair >> 16);
  for (int d = lanes / 2; d > 0; d /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, d));
  const bool zeros = largest == 0;
  const float most = numerics::operand_value(static_cast<uint16_t>(largest));
  const float scale = zeros ? 0.0f : numerics::div_f32(most, 127.0f);
  const float reciprocal = zeros ? 0.0f : numerics::int8_reciprocal(most, scale);
  // The integers are the lowest bytes of biased floats.
  const auto pair_of = [&](uint32_t two) {
    const float low = numerics::int8_biased(__uint_as_float(two << 16), reciprocal);
    const float high = numerics::int8_biased(__uint_as_float(two & 0xffff0000u), reciprocal);
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x0040);
  };
  uint32_t packed[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) packed[i] = __byte_perm(pair_of(x[2 * i]), pair_of(x[2 * i + 1]), 0x5410);
  return {make_uint4(packed[0], packed[1], packed[2], packed[3]), scale};
}

}  // namespace
}  // namespace eadem::kernels::cuda
