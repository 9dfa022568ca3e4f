// What the bytes of a stored weight mean: every element type of model files as float32, exactly as its format defines
// it, and the integers that int8-v1 runs as stored.
//
// A block-quantised value is d * scale * q, exact in float32 by the widths of its factors (half 11 bits, scale at most
// 7, q at most 6); the formats with a minimum add or subtract it by one rounded operation. The layouts are ggml's block
// structures, little-endian:
//
//   Q8_0   32: half d, 32 x int8                          value d * q
//   Q4_0   32: half d, 16 x nibble pair                   value d * (q - 8)
//   Q4_1   32: half d, half m, 16 x nibble pair           value d * q + m
//   Q5_0   32: half d, 32 high bits, 16 x nibble pair     value d * (q - 16)
//   Q5_1   32: half d, half m, 32 high bits, 16 x pair    value d * q + m
//   Q4_K  256: half d, half dmin, 12 B of 8 x (6-bit scale, 6-bit minimum), 128 B of nibbles      value d * s * q -
//   dmin * m Q5_K  256: as Q4_K with 32 B of high bits before the nibbles Q6_K  256: 128 B of low nibbles, 64 B of high
//   bit pairs, 16 x int8 scale, half d              value d * s * (q - 32)
//
// A pair holds element i of its half block in the low nibble and element i + (half block) in the high one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/check.h"
#include "core/dtype.h"
#include "numerics/config.h"
#include "numerics/ieee.h"

namespace eadem::numerics {

static_assert(std::endian::native == std::endian::little, "model files are little-endian, and are read in place");

// The float32 of an IEEE half, exact: subnormals, infinities and NaN payloads included.
EADEM_FN float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t subnormal = bits_of(mul_f32(static_cast<float>(static_cast<int32_t>(magnitude)), 0x1p-24f));
  return float_of(sign | (magnitude >= 0x7c00 ? special : magnitude >= 0x0400 ? normal : subnormal));
}

EADEM_FN float float_of_bf16(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

// Unaligned little-endian loads.
EADEM_FN uint16_t load_u16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
EADEM_FN uint32_t load_u32(const std::byte* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
EADEM_FN float load_half(const std::byte* p) { return float_of_half(load_u16(p)); }

namespace formats_detail {

EADEM_FN float times(float scale, int q) { return mul_f32(scale, static_cast<float>(q)); }
EADEM_FN int low_nibble(std::byte b) { return std::to_integer<int>(b) & 15; }
EADEM_FN int high_nibble(std::byte b) { return std::to_integer<int>(b) >> 4; }

EADEM_FN void decode_f32(const std::byte* in, int64_t count, float* out) {
  std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
}

EADEM_FN void decode_f16(const std::byte* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = load_half(in + 2 * i);
}

EADEM_FN void decode_bf16(const std::byte* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = float_of_bf16(load_u16(in + 2 * i));
}

EADEM_FN void decode_q8_0(const std::byte* in, float* out) {
  const float d = load_half(in);
  for (int i = 0; i < 32; ++i) out[i] = times(d, static_cast<int8_t>(in[2 + i]));
}

EADEM_FN void decode_q4_0(const std::byte* in, float* out) {
  const float d = load_half(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = times(d, low_nibble(in[2 + i]) - 8);
    out[16 + i] = times(d, high_nibble(in[2 + i]) - 8);
  }
}

EADEM_FN void decode_q4_1(const std::byte* in, float* out) {
  const float d = load_half(in);
  const float m = load_half(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = add_f32(times(d, low_nibble(in[4 + i])), m);
    out[16 + i] = add_f32(times(d, high_nibble(in[4 + i])), m);
  }
}

// Bit i of `high` is the fifth bit of element i.
EADEM_FN int five_bits(int nibble, uint32_t high, int i) { return nibble | static_cast<int>((high >> i & 1) << 4); }

EADEM_FN void decode_q5_0(const std::byte* in, float* out) {
  const float d = load_half(in);
  const uint32_t high = load_u32(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = times(d, five_bits(low_nibble(in[6 + i]), high, i) - 16);
    out[16 + i] = times(d, five_bits(high_nibble(in[6 + i]), high, 16 + i) - 16);
  }
}

EADEM_FN void decode_q5_1(const std::byte* in, float* out) {
  const float d = load_half(in);
  const float m = load_half(in + 2);
  const uint32_t high = load_u32(in + 4);
  for (int i = 0; i < 16; ++i) {
    out[i] = add_f32(times(d, five_bits(low_nibble(in[8 + i]), high, i)), m);
    out[16 + i] = add_f32(times(d, five_bits(high_nibble(in[8 + i]), high, 16 + i)), m);
  }
}

// The 6-bit scale and minimum of group g (0 to 7). Groups 4 to 7 keep their low four bits in bytes 8 to 11 and their
// high two in the top bits of the bytes of groups 0 to 3.
struct ScaleMin {
  int scale;
  int minimum;
};
EADEM_FN ScaleMin scale_min(const std::byte* packed, int g) {
  const auto at = [packed](int i) { return std::to_integer<int>(packed[i]); };
  if (g < 4) return {at(g) & 63, at(g + 4) & 63};
  return {(at(g + 4) & 15) | (at(g - 4) >> 6 << 4), (at(g + 4) >> 4) | (at(g) >> 6 << 4)};
}

// Groups of 32 share a byte row in pairs: group 2p in the low nibbles, 2p + 1 in the high ones. `high` is null for
// Q4_K; else bit g of high[i] is the fifth bit of element i of group g.
EADEM_FN void decode_q45_k(const std::byte* in, const std::byte* high, const std::byte* nibbles, float* out) {
  const float d = load_half(in);
  const float dmin = load_half(in + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin group = scale_min(in + 4, g);
    const float scale = times(d, group.scale);
    const float minimum = times(dmin, group.minimum);
    const std::byte* row = nibbles + 32 * (g / 2);
    const int shift = 4 * (g % 2);
    for (int i = 0; i < 32; ++i) {
      int q = std::to_integer<int>(row[i]) >> shift & 15;
      if (high != nullptr) q |= (std::to_integer<int>(high[i]) >> g & 1) << 4;
      out[32 * g + i] = sub_f32(times(scale, q), minimum);
    }
  }
}

EADEM_FN void decode_q4_k(const std::byte* in, float* out) { decode_q45_k(in, nullptr, in + 16, out); }
EADEM_FN void decode_q5_k(const std::byte* in, float* out) { decode_q45_k(in, in + 16, in + 48, out); }

// Two halves of 128 elements; in each, run r (0 to 3) of 32 takes the low (r < 2) or high nibble of byte 32 * (r % 2) +
// i, and bits 2r and 2r + 1 of the high byte i. Each 16 elements have a scale.
EADEM_FN void decode_q6_k(const std::byte* in, float* out) {
  const float d = load_half(in + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = in + 64 * half;
    const std::byte* high = in + 128 + 32 * half;
    const std::byte* scales = in + 192 + 8 * half;
    for (int g = 0; g < 8; ++g) {
      const int r = g / 2;
      const float scale = times(d, static_cast<int8_t>(scales[g]));
      for (int i = 16 * (g % 2); i < 16 * (g % 2) + 16; ++i) {
        const int nibble = std::to_integer<int>(low[32 * (r % 2) + i]) >> (4 * (r / 2)) & 15;
        const int q = nibble | (std::to_integer<int>(high[i]) >> (2 * r) & 3) << 4;
        out[128 * half + 32 * r + i] = times(scale, q - 32);
      }
    }
  }
}

template <void (*kDecode)(const std::byte*, float*)>
EADEM_FN void decode_each(DType dtype, const std::byte* in, int64_t blocks, float* out) {
  const DTypeInfo block = info(dtype);
  for (int64_t b = 0; b < blocks; ++b) kDecode(in + b * block.bytes, out + b * block.block);
}

}  // namespace formats_detail

// `blocks` consecutive blocks (elements, for plain types) at `in` to float32 values at `out` (blocks *
// info(dtype).block of them). Integer types are no weights: a bug.
EADEM_FN void decode_blocks(DType dtype, const std::byte* in, int64_t blocks, float* out) {
  using namespace formats_detail;
  switch (dtype) {
    case DType::kF32: return decode_f32(in, blocks, out);
    case DType::kF16: return decode_f16(in, blocks, out);
    case DType::kBF16: return decode_bf16(in, blocks, out);
    case DType::kQ8_0: return decode_each<decode_q8_0>(dtype, in, blocks, out);
    case DType::kQ4_0: return decode_each<decode_q4_0>(dtype, in, blocks, out);
    case DType::kQ4_1: return decode_each<decode_q4_1>(dtype, in, blocks, out);
    case DType::kQ5_0: return decode_each<decode_q5_0>(dtype, in, blocks, out);
    case DType::kQ5_1: return decode_each<decode_q5_1>(dtype, in, blocks, out);
    case DType::kQ4_K: return decode_each<decode_q4_k>(dtype, in, blocks, out);
    case DType::kQ5_K: return decode_each<decode_q5_k>(dtype, in, blocks, out);
    case DType::kQ6_K: return decode_each<decode_q6_k>(dtype, in, blocks, out);
    case DType::kI32:
    case DType::kI64:
    case DType::kU8: break;
  }
  check_failed("decode_blocks of an integer type", __FILE__, __LINE__);
}

// One row of `columns` elements, a whole number of blocks, to float32.
EADEM_FN void decode_row(DType dtype, const std::byte* row, int64_t columns, float* out) {
  decode_blocks(dtype, row, columns / info(dtype).block, out);
}

// Elements [first, first + columns) of a row; both are multiples of the block: a tile is expanded without its row.
EADEM_FN void decode_range(DType dtype, const std::byte* row, int64_t first, int64_t columns, float* out) {
  const DTypeInfo block = info(dtype);
  decode_blocks(dtype, row + first / block.block * block.bytes, columns / block.block, out);
}

// Whether int8-v1 runs the type's own integers, in groups of 32; every other type is quantised at load.
EADEM_CONST int64_t kInt8NativeGroup = 32;
EADEM_CONST bool int8_native(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_1;
}
// Whether the groups of such a type have a minimum, added to every value.
EADEM_CONST bool int8_has_minimum(DType dtype) { return dtype == DType::kQ4_1; }

// A row of an int8-native type as int8-v1 takes it: value i of group g is scale[g] * q[32 g + i] + minimum[g].
// q has `columns` integers (Q8_0: -128 to 127, Q4_0: -8 to 7, Q4_1: 0 to 15); scale and minimum have columns / 32 each.
// `minimum` is written for types that have one, and may be null for the others.
EADEM_FN void decode_row_int8(DType dtype, const std::byte* row, int64_t columns, int8_t* q, float* scale,
                              float* minimum) {
  EADEM_CHECK(int8_native(dtype));
  const int bytes = info(dtype).bytes;
  const int zero = dtype == DType::kQ4_0 ? 8 : 0;
  for (int64_t g = 0; g < columns / kInt8NativeGroup; ++g, row += bytes, q += kInt8NativeGroup) {
    scale[g] = load_half(row);
    if (dtype == DType::kQ8_0) {
      std::memcpy(q, row + 2, kInt8NativeGroup);
      continue;
    }
    if (dtype == DType::kQ4_1) minimum[g] = load_half(row + 2);
    const std::byte* pairs = row + (dtype == DType::kQ4_1 ? 4 : 2);
    for (int i = 0; i < 16; ++i) {
      q[i] = static_cast<int8_t>(formats_detail::low_nibble(pairs[i]) - zero);
      q[16 + i] = static_cast<int8_t>(formats_detail::high_nibble(pairs[i]) - zero);
    }
  }
}

// The half-precision scales of a block-quantised type: their byte offsets in a block, and how many. A scale that is not
// finite makes the block meaningless; readers refuse such a file.
struct HalfFields {
  int count;
  int offset[2];
};
EADEM_CONST HalfFields half_fields(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0: return {1, {0, 0}};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {2, {0, 2}};
    case DType::kQ6_K: return {1, {208, 0}};
    default: return {0, {0, 0}};
  }
}

}  // namespace eadem::numerics
