// Vec of AVX-512 (F, BW, VL, DQ): 16 lanes. Included by cpu/vec.h alone.
#pragma once

#include <immintrin.h>

namespace eadem::kernels::cpu {
namespace {

struct Vec {
  static constexpr int kWidth = 16;
  __m512 v;
  Vec() = default;
  EADEM_LANE explicit Vec(__m512 lanes) : v(lanes) {}
  EADEM_LANE explicit Vec(float x) : v(_mm512_set1_ps(x)) {}
  EADEM_LANE static Vec load(const float* p) { return Vec(_mm512_loadu_ps(p)); }
  EADEM_LANE void store(float* p) const { _mm512_storeu_ps(p, v); }
};

struct IVec {
  __m512i v;
  IVec() = default;
  EADEM_LANE explicit IVec(__m512i lanes) : v(lanes) {}
  EADEM_LANE explicit IVec(int32_t x) : v(_mm512_set1_epi32(x)) {}
  EADEM_LANE static IVec load(const void* p) { return IVec(_mm512_loadu_si512(p)); }
  EADEM_LANE void store(void* p) const { _mm512_storeu_si512(p, v); }
};

struct Mask {
  __mmask16 v;
};

EADEM_LANE Vec add(Vec a, Vec b) { return Vec(_mm512_add_ps(a.v, b.v)); }
EADEM_LANE Vec sub(Vec a, Vec b) { return Vec(_mm512_sub_ps(a.v, b.v)); }
EADEM_LANE Vec mul(Vec a, Vec b) { return Vec(_mm512_mul_ps(a.v, b.v)); }
EADEM_LANE Vec div(Vec a, Vec b) { return Vec(_mm512_div_ps(a.v, b.v)); }
EADEM_LANE Vec fma(Vec a, Vec b, Vec c) { return Vec(_mm512_fmadd_ps(a.v, b.v, c.v)); }
EADEM_LANE Vec sqrt(Vec a) { return Vec(_mm512_sqrt_ps(a.v)); }
EADEM_LANE Vec max(Vec a, Vec b) { return Vec(_mm512_max_ps(a.v, b.v)); }
EADEM_LANE Vec min(Vec a, Vec b) { return Vec(_mm512_min_ps(a.v, b.v)); }

EADEM_LANE Mask lt(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
EADEM_LANE Mask eq(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
EADEM_LANE Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
EADEM_LANE Mask both(Mask a, Mask b) { return {static_cast<__mmask16>(a.v & b.v)}; }
EADEM_LANE Mask either(Mask a, Mask b) { return {static_cast<__mmask16>(a.v | b.v)}; }
EADEM_LANE bool any(Mask m) { return m.v != 0; }
EADEM_LANE Vec select(Mask m, Vec a, Vec b) { return Vec(_mm512_mask_blend_ps(m.v, b.v, a.v)); }
EADEM_LANE IVec select(Mask m, IVec a, IVec b) { return IVec(_mm512_mask_blend_epi32(m.v, b.v, a.v)); }

EADEM_LANE IVec bits_of(Vec a) { return IVec(_mm512_castps_si512(a.v)); }
EADEM_LANE Vec float_of(IVec a) { return Vec(_mm512_castsi512_ps(a.v)); }
EADEM_LANE Vec to_float(IVec a) { return Vec(_mm512_cvtepi32_ps(a.v)); }
EADEM_LANE Vec to_float_truncating(IVec a) {
  return Vec(_mm512_cvt_roundepi32_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}
EADEM_LANE IVec truncate(Vec a) { return IVec(_mm512_cvttps_epi32(a.v)); }

EADEM_LANE IVec add(IVec a, IVec b) { return IVec(_mm512_add_epi32(a.v, b.v)); }
EADEM_LANE IVec sub(IVec a, IVec b) { return IVec(_mm512_sub_epi32(a.v, b.v)); }
EADEM_LANE IVec bit_and(IVec a, IVec b) { return IVec(_mm512_and_si512(a.v, b.v)); }
EADEM_LANE IVec bit_or(IVec a, IVec b) { return IVec(_mm512_or_si512(a.v, b.v)); }
EADEM_LANE IVec bit_xor(IVec a, IVec b) { return IVec(_mm512_xor_si512(a.v, b.v)); }
template <int kBits>
EADEM_LANE IVec shift_left(IVec a) {
  return IVec(_mm512_slli_epi32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right(IVec a) {
  return IVec(_mm512_srai_epi32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right_logical(IVec a) {
  return IVec(_mm512_srli_epi32(a.v, kBits));
}
// The halves of the 64-bit products of unsigned lanes.
EADEM_LANE void multiply(IVec a, uint32_t b, IVec& high, IVec& low) {
  const __m512i factor = _mm512_set1_epi64(b);
  const __m512i even = _mm512_mul_epu32(a.v, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), factor);
  high.v = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  low.v = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
EADEM_LANE Mask negative(IVec a) { return {_mm512_movepi32_mask(a.v)}; }

EADEM_LANE Vec expand(const uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return float_of(IVec(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)));
}
EADEM_LANE uint16_t largest_magnitude(const uint16_t* p) {
  const __m512i all = _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi16(0x7fff));
  const __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  const __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return static_cast<uint16_t>(~_mm_cvtsi128_si32(least));
}
EADEM_LANE Vec expand_float16(const uint16_t* p) {
  return Vec(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
EADEM_LANE uint16_t float16_of(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
EADEM_LANE void store_low_halves(uint16_t* p, IVec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
// The instruction rounds to nearest even; it is written out, since the AMX set is compiled without AVX512_BF16 (whoever
// has AMX has it). A NaN passes no comparison and becomes +0.
EADEM_LANE void store_operands(uint16_t* p, Vec x) {
  const __m512 magnitude = _mm512_abs_ps(x.v);
  const __mmask16 kept = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(0x1p-50f), _CMP_GE_OQ);
  const __m512i clamped = _mm512_castps_si512(_mm512_min_ps(magnitude, _mm512_set1_ps(0x1p50f)));
  const __m512i sign = _mm512_set1_epi32(static_cast<int32_t>(0x80000000u));
  const __m512i bits = _mm512_ternarylogic_epi32(clamped, _mm512_castps_si512(x.v), sign, 0xf8);  // a | (b & c)
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(bits));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_maskz_mov_epi16(kept, rounded));
}
#endif

#if defined(__AVX512VNNI__)
// Four unsigned bytes of each lane: VNNI multiplies unsigned by signed ones. int8 gets 128 added, nibbles what they
// have.
struct Quads {
  __m512i v;
  EADEM_LANE static Quads load(const void* p) {
    return {_mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128))};
  }
};
struct NibbleQuads : Quads {};

// Sums of four-element products in each lane, from what their offset will have added in the end.
struct Dot {
  static constexpr int kOffset = 128;
  IVec sum;
  EADEM_LANE static Dot start(int32_t offset) { return {IVec(offset)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    sum = IVec(_mm512_dpbusd_epi32(sum.v, w.v, _mm512_set1_epi32(*x)));
  }
  EADEM_LANE IVec total(int32_t) const { return sum; }
};
using NibbleDot = Dot;
#else
// The magnitudes of four int8 of each lane: products are of unsigned by signed bytes, so x is negated where the weight
// is negative.
struct Quads {
  __m512i magnitude;
  __mmask64 negative;
  EADEM_LANE static Quads load(const void* p) {
    const __m512i line = _mm512_loadu_si512(p);
    return {_mm512_abs_epi8(line), _mm512_movepi8_mask(line)};
  }
};
struct NibbleQuads {
  __m512i v;
};

EADEM_LANE __m512i pairs_of_int16(__m512i a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }

// Sums of four-element products in each lane. Two products are at most 2 * 128 * 127 and fit an int16.
struct Dot {
  static constexpr int kOffset = 0;
  IVec sum;
  EADEM_LANE static Dot start(int32_t) { return {IVec(0)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    const __m512i quad = _mm512_set1_epi32(*x);
    const __m512i turned = _mm512_mask_sub_epi8(quad, w.negative, _mm512_setzero_si512(), quad);
    sum = add(sum, IVec(pairs_of_int16(_mm512_maddubs_epi16(w.magnitude, turned))));
  }
  EADEM_LANE IVec total(int32_t) const { return sum; }
};
// Of nibbles, whose group's sums fit an int16 too: 8 pairs of at most 2 * 15 * 127.
struct NibbleDot {
  static_assert(numerics::kStoredGroup / 4 * 2 * 15 * 127 < 1 << 15);
  __m512i sum;
  EADEM_LANE static NibbleDot start(int32_t) { return {_mm512_setzero_si512()}; }
  EADEM_LANE void add_products(NibbleQuads w, const QuadWord* x) {
    sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(w.v, _mm512_set1_epi32(*x)));
  }
  EADEM_LANE IVec total(int32_t offset) const { return add(IVec(pairs_of_int16(sum)), IVec(offset)); }
};
#endif
EADEM_LANE void load_nibbles(const void* p, NibbleQuads& first, NibbleQuads& second) {
  const __m512i line = _mm512_loadu_si512(p), low = _mm512_set1_epi8(15);
  first.v = _mm512_and_si512(line, low), second.v = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
}

// Shapes of the inner blocks: rows x panels whose chains fill the registers.
inline constexpr int kFmaRows = 6, kFmaPanels = 2;
inline constexpr int kInt8Rows = 6, kInt8Panels = 2;

}  // namespace
}  // namespace eadem::kernels::cpu
