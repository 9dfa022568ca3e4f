// Elementary functions of float32: exp, log, log1p, sigmoid, SwiGLU, and attention's two powers of two.
//
// Each is a straight line of IEEE operations without branches or tables, written once over a value type V, so that a
// scalar, a vector of any instruction set and a device thread evaluate the same operations in the same order and get
// the same bits. V is float (below), or a class that holds float lanes, with these functions beside it (found through
// its namespace), each applied lane by lane:
//
//   V(float)                                  the number in every lane
//   add sub mul div (V, V), fma(V, V, V)      IEEE, rounded to nearest even; fma(a, b, c) = a * b + c rounded once
//   max(a, b)                                 a > b ? a : b (no function here passes a NaN whose lane is used)
//   lt(a, b), is_nan(a)                       a mask of any type; comparisons with NaN are false
//   select(mask, a, b)                        a where the mask is set, else b
//   add_to_exponent(p, z)                     the float with bits(p) + (bits(z) << 23), modulo 2^32
// and for log32, log1p32 and what is made of them:
//   exponent_of(x)                            float(e), where e = int32(bits(x) - 0x3f2aaaab) >> 23 (arithmetic shift)
//   mantissa_of(x)                            m in [2/3, 4/3): the float with bits(x) - (e << 23), so that x = m * 2^e
//
// Every NaN that exp32, log32, log1p32 and sigmoid32 return has the bits 0x7fc00000. Errors are stated against the
// exact value and were checked over all 2^32 floats (tests/bits/math/math_exhaustive.cc); the polynomials come from
// tests/bits/math/derive/polynomials.py.
#pragma once

#include "numerics/ieee.h"

namespace eadem::numerics {

EADEM_INLINE float add(float a, float b) { return add_f32(a, b); }
EADEM_INLINE float sub(float a, float b) { return sub_f32(a, b); }
EADEM_INLINE float mul(float a, float b) { return mul_f32(a, b); }
EADEM_INLINE float div(float a, float b) { return div_f32(a, b); }
EADEM_INLINE float fma(float a, float b, float c) { return fma_f32(a, b, c); }
EADEM_INLINE float max(float a, float b) { return a > b ? a : b; }
EADEM_INLINE bool lt(float a, float b) { return a < b; }
EADEM_INLINE bool is_nan(float a) { return a != a; }
EADEM_INLINE float select(bool mask, float a, float b) { return mask ? a : b; }
EADEM_INLINE float add_to_exponent(float p, float z) { return float_of(bits_of(p) + (bits_of(z) << 23)); }
EADEM_INLINE std::int32_t exponent_bits(float x) { return static_cast<std::int32_t>(bits_of(x) - 0x3f2aaaabu) >> 23; }
EADEM_INLINE float exponent_of(float x) { return static_cast<float>(exponent_bits(x)); }
EADEM_INLINE float mantissa_of(float x) {
  return float_of(bits_of(x) - (static_cast<std::uint32_t>(exponent_bits(x)) << 23));
}

/// 1.5 * 2^23: t + kRoundMagic has t rounded to nearest even in its low bits, for |t| < 2^22.
EADEM_CONST float kRoundMagic = 12582912.0f;

/// The NaN and infinity of this page.
EADEM_INLINE float canonical_nan() { return float_of(0x7fc00000u); }
EADEM_INLINE float infinity() { return float_of(0x7f800000u); }

/// Attention's weight 2^t for -50 <= t <= 9: relative error 1.02e-4, far below bf16's rounding of it. Degree 3.
template <class V>
EADEM_INLINE V exp2p(V t) {
  const V z = add(t, V(kRoundMagic));
  const V f = sub(t, sub(z, V(kRoundMagic)));
  V p = fma(V(0x1.c2a218p-5f), f, V(0x1.f00c4ep-3f));
  p = fma(p, f, V(0x1.62f5fap-1f));
  p = fma(p, f, V(1.0f));
  return add_to_exponent(p, z);
}

/// Attention's rescaling 2^max(t, -126) for t < 127: relative error 8e-8. Degree 6.
template <class V>
EADEM_INLINE V exp2_full(V t) {
  const V u = max(t, V(-126.0f));
  const V z = add(u, V(kRoundMagic));
  const V f = sub(u, sub(z, V(kRoundMagic)));
  V p = fma(V(0x1.41fbbcp-13f), f, V(0x1.5f3e54p-10f));
  p = fma(p, f, V(0x1.3b2d4cp-7f));
  p = fma(p, f, V(0x1.c6aee8p-5f));
  p = fma(p, f, V(0x1.ebfbdcp-3f));
  p = fma(p, f, V(0x1.62e430p-1f));
  p = fma(p, f, V(1.0f));
  return add_to_exponent(p, z);
}

/// e^x within 1 ulp. +0 where e^x < 2^-126 (x below -0x1.5d589ep+6), so that no result is subnormal; infinity above
/// 0x1.62e42ep+6.
template <class V>
EADEM_INLINE V exp32(V x) {
  const V z = fma(x, V(0x1.715476p+0f), V(kRoundMagic));
  const V n = sub(z, V(kRoundMagic));
  const V rest = fma(n, V(-0x1.62e430p-1f), x);  // exact: a multiple of 2^-25 below 1/2
  const V shift = mul(n, V(0x1.05c610p-29f));
  const V f = add(rest, shift);
  const V f_lo = add(sub(rest, f), shift);
  V q = fma(V(0x1.6a2412p-10f), f, V(0x1.1239f2p-7f));
  q = fma(q, f, V(0x1.5558f2p-5f));
  q = fma(q, f, V(0x1.555492p-3f));
  q = fma(q, f, V(0x1.fffffcp-2f));
  const V tail = fma(mul(f, f), q, f_lo);
  const V one = V(1.0f);
  const V hi = add(one, f);
  const V lo = sub(f, sub(hi, one));
  V y = add_to_exponent(add(hi, add(lo, tail)), z);
  y = select(lt(x, V(-0x1.5d589ep+6f)), V(0.0f), y);
  y = select(lt(V(0x1.62e42ep+6f), x), V(infinity()), y);
  return select(is_nan(x), V(canonical_nan()), y);
}

/// log(2^e * (1 + f + f_lo)) for f in [-1/3, 1/3] and |f_lo| <= 2^-26: e * log 2 + f - f^2 / 2 + f^3 Q(f), its large
/// terms kept in two floats. Where e is not 0 the first term outweighs f, so that the short form of an exact sum holds.
template <class V>
EADEM_INLINE V log_of_parts(V e, V f, V f_lo) {
  V q = fma(V(0x1.ebc82cp-4f), f, V(-0x1.07108cp-3f));
  q = fma(q, f, V(0x1.b88050p-4f));
  q = fma(q, f, V(-0x1.f38a40p-4f));
  q = fma(q, f, V(0x1.24f478p-3f));
  q = fma(q, f, V(-0x1.559904p-3f));
  q = fma(q, f, V(0x1.99977ep-3f));
  q = fma(q, f, V(-0x1.ffff0ep-3f));
  q = fma(q, f, V(0x1.555556p-2f));
  const V tail = mul(mul(f, f), fma(q, f, V(-0.5f)));
  const V e_hi = mul(e, V(0x1.62e400p-1f));  // exact: 15 bits by 8
  const V hi = add(e_hi, f);
  V lo = add(sub(e_hi, hi), f);
  lo = fma(f_lo, sub(V(1.0f), f), lo);
  lo = fma(e, V(0x1.7f7d1cp-20f), lo);
  return add(hi, add(lo, tail));
}

/// log x within 1 ulp, subnormal x too. log(+-0) = -infinity; NaN below 0.
template <class V>
EADEM_INLINE V log32(V x) {
  const auto small = lt(x, V(0x1p-126f));
  const V y = select(small, mul(x, V(0x1p23f)), x);
  const V e = sub(exponent_of(y), select(small, V(23.0f), V(0.0f)));
  V r = log_of_parts(e, sub(mantissa_of(y), V(1.0f)), V(0.0f));
  r = select(lt(V(0x1.fffffep+127f), x), V(infinity()), r);
  r = select(lt(x, V(0x1p-149f)), V(-infinity()), r);
  r = select(lt(x, V(0.0f)), V(canonical_nan()), r);
  return select(is_nan(x), V(canonical_nan()), r);
}

/// log(1 + x) within 1 ulp; x itself where |x| < 2^-30. log1p(-1) = -infinity; NaN below -1.
template <class V>
EADEM_INLINE V log1p32(V x) {
  const V one = V(1.0f);
  const V u = add(one, x);  // 1 + x = u + c exactly
  const V u_x = sub(u, one);
  const V c = add(sub(one, sub(u, u_x)), sub(x, u_x));
  const V e = exponent_of(u);
  const V scale = add_to_exponent(one, add(max(sub(V(0.0f), e), V(-100.0f)), V(kRoundMagic)));
  const V a = sub(mantissa_of(u), one);
  const V b = mul(c, scale);  // above 2^100 c no longer matters
  const V f = add(a, b);      // a + b = f + f_lo exactly; f = x where e = 0
  const V f_b = sub(f, a);
  const V f_lo = add(sub(a, sub(f, f_b)), sub(b, f_b));
  V r = log_of_parts(e, f, f_lo);
  r = select(lt(mul(x, x), V(0x1p-60f)), x, r);
  r = select(lt(V(0x1.fffffep+127f), x), V(infinity()), r);
  r = select(lt(x, V(-0x1.fffffep-1f)), V(-infinity()), r);
  r = select(lt(x, V(-1.0f)), V(canonical_nan()), r);
  return select(is_nan(x), V(canonical_nan()), r);
}

/// 1 / (1 + e^-x) within 2 ulp; like exp32 it is +0 where it would be below 2^-126. With w = e^-|x| it is 1 / (1 + w)
/// or w / (1 + w); the rounding errors of the sum and of the reciprocal are put back in the last step.
template <class V>
EADEM_INLINE V sigmoid32(V x) {
  const V zero = V(0.0f);
  const V one = V(1.0f);
  const auto negative = lt(x, zero);
  const V w = exp32(select(negative, x, sub(zero, x)));
  const V top = select(negative, w, one);
  const V s = add(one, w);
  const V s_lo = sub(w, sub(s, one));
  const V r = div(one, s);
  const V minus_r = sub(zero, r);
  const V e = fma(minus_r, s_lo, fma(minus_r, s, one));  // 1 / (1 + w) = r * (1 + e), nearly
  const V y = fma(top, r, mul(top, mul(r, e)));
  return select(is_nan(x), V(canonical_nan()), y);
}

/// SwiGLU: (g / (1 + exp(-g))) * u.
template <class V>
EADEM_INLINE V swiglu32(V g, V u) {
  return mul(div(g, add(V(1.0f), exp32(sub(V(0.0f), g)))), u);
}

}  // namespace eadem::numerics
