// int8_quantise on the device: 16 operands a lane, a group by 2 or 8 neighbouring lanes of a whole warp.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "numerics/int8_quotient.h"

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
  const float scale = zeros ? 0.0f : numerics::div_f32(numerics::operand_value(static_cast<uint16_t>(largest)), 127.0f);
  const float reciprocal = zeros ? 0.0f : numerics::div_f32(1.0f, scale);
  uint32_t packed[4] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float value = numerics::operand_value(static_cast<uint16_t>(i % 2 == 0 ? x[i / 2] : x[i / 2] >> 16));
    // 1.5 * 2^23 + q: rounded to the nearest integer, ties to even, which is in the lowest byte.
    const float rounded = numerics::add_f32(numerics::int8_quotient(value, scale, reciprocal), 12582912.0f);
    packed[i / 4] |= (__float_as_uint(rounded) & 0xffu) << (8 * (i % 4));
  }
  return {make_uint4(packed[0], packed[1], packed[2], packed[3]), scale};
}

}  // namespace
}  // namespace eadem::kernels::cuda
