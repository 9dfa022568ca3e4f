// Vec of 64-bit Arm's Advanced SIMD: 4 lanes. Included by cpu/vec.h alone.
#pragma once

#include <arm_neon.h>

namespace eadem::kernels::cpu {
namespace {

struct Vec {
  static constexpr int kWidth = 4;
  float32x4_t v;
  Vec() = default;
  EADEM_LANE explicit Vec(float32x4_t lanes) : v(lanes) {}
  EADEM_LANE explicit Vec(float x) : v(vdupq_n_f32(x)) {}
  EADEM_LANE static Vec load(const float* p) { return Vec(vld1q_f32(p)); }
  EADEM_LANE void store(float* p) const { vst1q_f32(p, v); }
};

struct IVec {
  int32x4_t v;
  IVec() = default;
  EADEM_LANE explicit IVec(int32x4_t lanes) : v(lanes) {}
  EADEM_LANE explicit IVec(int32_t x) : v(vdupq_n_s32(x)) {}
  EADEM_LANE static IVec load(const void* p) {
    return IVec(vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p))));
  }
  EADEM_LANE void store(void* p) const { vst1q_u8(static_cast<uint8_t*>(p), vreinterpretq_u8_s32(v)); }
};

struct Mask {
  uint32x4_t v;
};

EADEM_LANE Vec add(Vec a, Vec b) { return Vec(vaddq_f32(a.v, b.v)); }
EADEM_LANE Vec sub(Vec a, Vec b) { return Vec(vsubq_f32(a.v, b.v)); }
EADEM_LANE Vec mul(Vec a, Vec b) { return Vec(vmulq_f32(a.v, b.v)); }
EADEM_LANE Vec div(Vec a, Vec b) { return Vec(vdivq_f32(a.v, b.v)); }
EADEM_LANE Vec fma(Vec a, Vec b, Vec c) { return Vec(vfmaq_f32(c.v, a.v, b.v)); }
EADEM_LANE Vec sqrt(Vec a) { return Vec(vsqrtq_f32(a.v)); }
// Not fmax: that one returns a NaN where x86 returns b, and orders -0 below +0.
EADEM_LANE Vec max(Vec a, Vec b) { return Vec(vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)); }
EADEM_LANE Vec min(Vec a, Vec b) { return Vec(vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)); }

EADEM_LANE Mask lt(Vec a, Vec b) { return {vcltq_f32(a.v, b.v)}; }
EADEM_LANE Mask eq(Vec a, Vec b) { return {vceqq_f32(a.v, b.v)}; }
EADEM_LANE Mask is_nan(Vec a) { return {vmvnq_u32(vceqq_f32(a.v, a.v))}; }
EADEM_LANE Mask both(Mask a, Mask b) { return {vandq_u32(a.v, b.v)}; }
EADEM_LANE Mask either(Mask a, Mask b) { return {vorrq_u32(a.v, b.v)}; }
EADEM_LANE bool any(Mask m) { return vmaxvq_u32(m.v) != 0; }
EADEM_LANE Vec select(Mask m, Vec a, Vec b) { return Vec(vbslq_f32(m.v, a.v, b.v)); }
EADEM_LANE IVec select(Mask m, IVec a, IVec b) { return IVec(vbslq_s32(m.v, a.v, b.v)); }

EADEM_LANE IVec bits_of(Vec a) { return IVec(vreinterpretq_s32_f32(a.v)); }
EADEM_LANE Vec float_of(IVec a) { return Vec(vreinterpretq_f32_s32(a.v)); }
EADEM_LANE Vec to_float(IVec a) { return Vec(vcvtq_f32_s32(a.v)); }
EADEM_LANE IVec truncate(Vec a) { return IVec(vcvtq_s32_f32(a.v)); }

EADEM_LANE IVec add(IVec a, IVec b) { return IVec(vaddq_s32(a.v, b.v)); }
EADEM_LANE IVec sub(IVec a, IVec b) { return IVec(vsubq_s32(a.v, b.v)); }
EADEM_LANE IVec bit_and(IVec a, IVec b) { return IVec(vandq_s32(a.v, b.v)); }
EADEM_LANE IVec bit_or(IVec a, IVec b) { return IVec(vorrq_s32(a.v, b.v)); }
EADEM_LANE IVec bit_xor(IVec a, IVec b) { return IVec(veorq_s32(a.v, b.v)); }
template <int kBits>
EADEM_LANE IVec shift_left(IVec a) {
  return IVec(vshlq_n_s32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right(IVec a) {
  return IVec(vshrq_n_s32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right_logical(IVec a) {
  return IVec(vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v), kBits)));
}
// The halves of the 64-bit products of unsigned lanes.
EADEM_LANE void multiply(IVec a, uint32_t b, IVec& high, IVec& low) {
  const uint32x4_t x = vreinterpretq_u32_s32(a.v);
  const uint32x4_t first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(x), b));
  const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_n_u32(x, b));
  high.v = vreinterpretq_s32_u32(vuzp2q_u32(first, second));
  low.v = vreinterpretq_s32_u32(vuzp1q_u32(first, second));
}
EADEM_LANE Mask negative(IVec a) { return {vcltzq_s32(a.v)}; }

// No conversion here truncates, so the one to nearest even is stepped back where it went away from zero. |a| < 2^31;
// converting back may give 2^31, which as an unsigned number is still right.
EADEM_LANE Vec to_float_truncating(IVec a) {
  const uint32x4_t magnitude = vreinterpretq_u32_s32(vabsq_s32(a.v));
  const float32x4_t nearest = vcvtq_f32_u32(magnitude);
  const uint32x4_t step = vcgtq_u32(vcvtq_u32_f32(nearest), magnitude);
  const IVec sign = bit_and(a, IVec(static_cast<int32_t>(0x80000000u)));
  return float_of(bit_or(add(bits_of(Vec(nearest)), IVec(vreinterpretq_s32_u32(step))), sign));
}

EADEM_LANE Vec expand(const uint16_t* p) {
  return float_of(IVec(vreinterpretq_s32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16))));
}
EADEM_LANE uint16_t largest_magnitude(const uint16_t* p) {
  uint16x8_t largest = vdupq_n_u16(0);
  for (int i = 0; i < 32; i += 8) largest = vmaxq_u16(largest, vandq_u16(vld1q_u16(p + i), vdupq_n_u16(0x7fff)));
  return vmaxvq_u16(largest);
}
EADEM_LANE Vec expand_float16(const uint16_t* p) { return Vec(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))); }
EADEM_LANE uint16_t float16_of(float x) { return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0); }
EADEM_LANE void store_low_halves(uint16_t* p, IVec a) { vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(a.v))); }

// Four int8 of each lane.
struct Quads {
  int8x16_t v;
  EADEM_LANE static Quads load(const void* p) { return {vld1q_s8(static_cast<const int8_t*>(p))}; }
};
struct NibbleQuads : Quads {};
EADEM_LANE void load_nibbles(const void* p, NibbleQuads& first, NibbleQuads& second) {
  const uint8x16_t line = vld1q_u8(static_cast<const uint8_t*>(p));
  first.v = vreinterpretq_s8_u8(vandq_u8(line, vdupq_n_u8(15)));
  second.v = vreinterpretq_s8_u8(vshrq_n_u8(line, 4));
}

#if defined(__ARM_FEATURE_DOTPROD)
// Sums of four-element products in each lane, from what their offset will have added in the end.
struct Dot {
  static constexpr int kOffset = 0;
  IVec sum;
  EADEM_LANE static Dot start(int32_t offset) { return {IVec(offset)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    sum = IVec(vdotq_s32(sum.v, w.v, vreinterpretq_s8_s32(vdupq_n_s32(*x))));
  }
  EADEM_LANE IVec total(int32_t) const { return sum; }
};
#else
// Sums of four-element products: each half holds two outputs, two partial sums each.
struct Dot {
  IVec low, high;
  static constexpr int kOffset = 0;
  EADEM_LANE static Dot start(int32_t) { return {IVec(0), IVec(0)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    const int8x16_t quad = vreinterpretq_s8_s32(vdupq_n_s32(*x));
    low = IVec(vpadalq_s16(low.v, vmull_s8(vget_low_s8(w.v), vget_low_s8(quad))));
    high = IVec(vpadalq_s16(high.v, vmull_high_s8(w.v, quad)));
  }
  EADEM_LANE IVec total(int32_t offset) const { return add(IVec(vpaddq_s32(low.v, high.v)), IVec(offset)); }
};
#endif
using NibbleDot = Dot;

// Shapes of the inner blocks: rows x panels whose chains fill the registers.
inline constexpr int kFmaRows = 2, kFmaPanels = 1;
#if defined(__ARM_FEATURE_DOTPROD)
inline constexpr int kInt8Rows = 4, kInt8Panels = 1;
#else
inline constexpr int kInt8Rows = 2, kInt8Panels = 1;
#endif

}  // namespace
}  // namespace eadem::kernels::cpu
