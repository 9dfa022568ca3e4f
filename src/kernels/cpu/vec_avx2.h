// Vec of AVX2 and FMA: 8 lanes. Included by cpu/vec.h alone.
#pragma once

#include <immintrin.h>

namespace eadem::kernels::cpu {
namespace {

struct Vec {
  static constexpr int kWidth = 8;
  __m256 v;
  Vec() = default;
  EADEM_LANE explicit Vec(__m256 lanes) : v(lanes) {}
  EADEM_LANE explicit Vec(float x) : v(_mm256_set1_ps(x)) {}
  EADEM_LANE static Vec load(const float* p) { return Vec(_mm256_loadu_ps(p)); }
  EADEM_LANE void store(float* p) const { _mm256_storeu_ps(p, v); }
};

struct IVec {
  __m256i v;
  IVec() = default;
  EADEM_LANE explicit IVec(__m256i lanes) : v(lanes) {}
  EADEM_LANE explicit IVec(int32_t x) : v(_mm256_set1_epi32(x)) {}
  EADEM_LANE static IVec load(const void* p) { return IVec(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
  EADEM_LANE void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
};

struct Mask {
  __m256 v;
};

EADEM_LANE Vec add(Vec a, Vec b) { return Vec(_mm256_add_ps(a.v, b.v)); }
EADEM_LANE Vec sub(Vec a, Vec b) { return Vec(_mm256_sub_ps(a.v, b.v)); }
EADEM_LANE Vec mul(Vec a, Vec b) { return Vec(_mm256_mul_ps(a.v, b.v)); }
EADEM_LANE Vec div(Vec a, Vec b) { return Vec(_mm256_div_ps(a.v, b.v)); }
EADEM_LANE Vec fma(Vec a, Vec b, Vec c) { return Vec(_mm256_fmadd_ps(a.v, b.v, c.v)); }
EADEM_LANE Vec sqrt(Vec a) { return Vec(_mm256_sqrt_ps(a.v)); }
EADEM_LANE Vec max(Vec a, Vec b) { return Vec(_mm256_max_ps(a.v, b.v)); }
EADEM_LANE Vec min(Vec a, Vec b) { return Vec(_mm256_min_ps(a.v, b.v)); }

EADEM_LANE Mask lt(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
EADEM_LANE Mask eq(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
EADEM_LANE Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
EADEM_LANE Mask both(Mask a, Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
EADEM_LANE Mask either(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
EADEM_LANE bool any(Mask m) { return _mm256_movemask_ps(m.v) != 0; }
EADEM_LANE Vec select(Mask m, Vec a, Vec b) { return Vec(_mm256_blendv_ps(b.v, a.v, m.v)); }
EADEM_LANE IVec select(Mask m, IVec a, IVec b) {
  return IVec(_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(b.v), _mm256_castsi256_ps(a.v), m.v)));
}

EADEM_LANE IVec bits_of(Vec a) { return IVec(_mm256_castps_si256(a.v)); }
EADEM_LANE Vec float_of(IVec a) { return Vec(_mm256_castsi256_ps(a.v)); }
EADEM_LANE Vec to_float(IVec a) { return Vec(_mm256_cvtepi32_ps(a.v)); }
EADEM_LANE IVec truncate(Vec a) { return IVec(_mm256_cvttps_epi32(a.v)); }

EADEM_LANE IVec add(IVec a, IVec b) { return IVec(_mm256_add_epi32(a.v, b.v)); }
EADEM_LANE IVec sub(IVec a, IVec b) { return IVec(_mm256_sub_epi32(a.v, b.v)); }
EADEM_LANE IVec bit_and(IVec a, IVec b) { return IVec(_mm256_and_si256(a.v, b.v)); }
EADEM_LANE IVec bit_or(IVec a, IVec b) { return IVec(_mm256_or_si256(a.v, b.v)); }
EADEM_LANE IVec bit_xor(IVec a, IVec b) { return IVec(_mm256_xor_si256(a.v, b.v)); }
template <int kBits>
EADEM_LANE IVec shift_left(IVec a) {
  return IVec(_mm256_slli_epi32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right(IVec a) {
  return IVec(_mm256_srai_epi32(a.v, kBits));
}
template <int kBits>
EADEM_LANE IVec shift_right_logical(IVec a) {
  return IVec(_mm256_srli_epi32(a.v, kBits));
}
// select and any read the sign bit alone, so the lanes' own bits serve as the mask.
// The halves of the 64-bit products of unsigned lanes.
EADEM_LANE void multiply(IVec a, uint32_t b, IVec& high, IVec& low) {
  const __m256i factor = _mm256_set1_epi64x(b);
  const __m256i even = _mm256_mul_epu32(a.v, factor), odd = _mm256_mul_epu32(_mm256_srli_epi64(a.v, 32), factor);
  high.v = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  low.v = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
EADEM_LANE Mask negative(IVec a) { return {_mm256_castsi256_ps(a.v)}; }

// No conversion here truncates, so the one to nearest even is stepped back where it went away from zero. |a| < 2^31;
// converting back may give 2^31, which as an unsigned number is still right.
EADEM_LANE Vec to_float_truncating(IVec a) {
  const IVec magnitude(_mm256_abs_epi32(a.v));
  const Vec nearest = to_float(magnitude);
  const IVec excess = sub(truncate(nearest), magnitude);
  const IVec step(_mm256_cmpgt_epi32(excess.v, _mm256_setzero_si256()));
  const IVec sign = bit_and(a, IVec(static_cast<int32_t>(0x80000000u)));
  return float_of(bit_or(add(bits_of(nearest), step), sign));
}

EADEM_LANE Vec expand(const uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return float_of(IVec(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16)));
}
EADEM_LANE uint16_t largest_magnitude(const uint16_t* p) {
  const auto* const from = reinterpret_cast<const __m256i*>(p);
  const __m256i magnitude = _mm256_set1_epi16(0x7fff);
  const __m256i half = _mm256_max_epu16(_mm256_and_si256(_mm256_loadu_si256(from), magnitude),
                                        _mm256_and_si256(_mm256_loadu_si256(from + 1), magnitude));
  const __m128i quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return static_cast<uint16_t>(~_mm_cvtsi128_si32(least));
}
EADEM_LANE Vec expand_float16(const uint16_t* p) {
  return Vec(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
EADEM_LANE uint16_t float16_of(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
EADEM_LANE void store_low_halves(uint16_t* p, IVec a) {
  const __m256i low = bit_and(a, IVec(0xffff)).v;
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

#if defined(__AVXVNNI__)
// Four unsigned bytes of each lane: VNNI multiplies unsigned by signed ones. int8 gets 128 added, nibbles what they
// have.
struct Quads {
  __m256i v;
  EADEM_LANE static Quads load(const void* p) {
    return {_mm256_xor_si256(_mm256_loadu_si256(static_cast<const __m256i*>(p)), _mm256_set1_epi8(-128))};
  }
};
struct NibbleQuads : Quads {};

// Sums of four-element products in each lane, from what their offset will have added in the end.
struct Dot {
  static constexpr int kOffset = 128;
  IVec sum;
  EADEM_LANE static Dot start(int32_t offset) { return {IVec(offset)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    sum = IVec(_mm256_dpbusd_avx_epi32(sum.v, w.v, _mm256_set1_epi32(*x)));
  }
  EADEM_LANE IVec total(int32_t) const { return sum; }
};
using NibbleDot = Dot;
#else
// Four int8 of each lane, and their magnitudes: products are of unsigned by signed bytes, so x takes the weight's sign.
struct Quads {
  __m256i v, magnitude;
  EADEM_LANE static Quads load(const void* p) {
    const __m256i line = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return {line, _mm256_abs_epi8(line)};
  }
};
struct NibbleQuads {
  __m256i v;
};

EADEM_LANE __m256i pairs_of_int16(__m256i a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }

// Sums of four-element products in each lane. Two products are at most 2 * 128 * 127 and fit an int16.
struct Dot {
  static constexpr int kOffset = 0;
  IVec sum;
  EADEM_LANE static Dot start(int32_t) { return {IVec(0)}; }
  EADEM_LANE void add_products(Quads w, const QuadWord* x) {
    // One after the other: GCC begins with the products of all rows else, and has no registers left for the sums.
    asm volatile("" ::: "memory");
    const __m256i products = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(_mm256_set1_epi32(*x), w.v));
    sum = add(sum, IVec(pairs_of_int16(products)));
  }
  EADEM_LANE IVec total(int32_t) const { return sum; }
};
// Of nibbles, whose group's sums fit an int16 too: 8 pairs of at most 2 * 15 * 127.
struct NibbleDot {
  static_assert(numerics::kStoredGroup / 4 * 2 * 15 * 127 < 1 << 15);
  __m256i sum;
  EADEM_LANE static NibbleDot start(int32_t) { return {_mm256_setzero_si256()}; }
  EADEM_LANE void add_products(NibbleQuads w, const QuadWord* x) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w.v, _mm256_set1_epi32(*x)));
  }
  EADEM_LANE IVec total(int32_t offset) const { return add(IVec(pairs_of_int16(sum)), IVec(offset)); }
};
#endif
EADEM_LANE void load_nibbles(const void* p, NibbleQuads& first, NibbleQuads& second) {
  const __m256i line = _mm256_loadu_si256(static_cast<const __m256i*>(p)), low = _mm256_set1_epi8(15);
  first.v = _mm256_and_si256(line, low), second.v = _mm256_and_si256(_mm256_srli_epi16(line, 4), low);
}

// Shapes of the inner blocks: rows x panels whose chains fill the registers.
inline constexpr int kFmaRows = 3, kFmaPanels = 1;
inline constexpr int kInt8Rows = 4, kInt8Panels = 1;

}  // namespace
}  // namespace eadem::kernels::cpu
