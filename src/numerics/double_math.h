// Double-precision sin, cos, exp, log and pow for rope's frequencies and angles and the host's constants.
//
// Ours, so that a table of angles has the same bits with any C library. sin and cos are below 0.8 units of the last
// place, the others below 0.6 (tests/bits/math/test_double_math.cc, against MPFR). Sums are carried in pairs of doubles
// where cancellation or the exponent of a power would cost digits. The polynomials come from
// tests/bits/math/derive/polynomials.py.
#pragma once

#include "numerics/ieee.h"

namespace eadem::numerics {

/// An unevaluated sum hi + lo, |lo| at most half a unit of hi's last place where a function says `normalised`.
struct DoublePair {
  double hi, lo;
};

EADEM_FN double nan_f64() { return double_of(0x7ff8000000000000u); }
EADEM_FN double infinity_f64() { return double_of(0x7ff0000000000000u); }

/// a + b exactly; |a| >= |b|, or a = 0.
EADEM_FN DoublePair fast_two_sum(double a, double b) {
  const double hi = add_f64(a, b);
  return {hi, sub_f64(b, sub_f64(hi, a))};
}
/// a + b exactly.
EADEM_FN DoublePair two_sum(double a, double b) {
  const double hi = add_f64(a, b);
  const double b_part = sub_f64(hi, a);
  return {hi, add_f64(sub_f64(a, sub_f64(hi, b_part)), sub_f64(b, b_part))};
}
/// a * b exactly.
EADEM_FN DoublePair two_product(double a, double b) {
  const double hi = mul_f64(a, b);
  return {hi, fma_f64(a, b, -hi)};
}

/// An angle less its multiple of pi / 2: remainder hi + lo in about [-pi/4, pi/4], and the multiple modulo 4.
struct ReducedAngle {
  DoublePair remainder;
  unsigned quadrant;
};

/// For |x| <= 2^32. pi / 2 is subtracted in three parts of 53 bits: the first difference is exact, since both terms are
/// multiples of 2^-53 (where the multiple is not 0) and their difference is below 1.
EADEM_FN ReducedAngle reduce_angle(double x) {
  const double n = rint_f64(mul_f64(x, 0x1.45f306dc9c883p-1));
  const double first = fma_f64(-n, 0x1.921fb54442d18p+0, x);
  const DoublePair second = two_product(n, 0x1.1a62633145c07p-54);
  const DoublePair sum = two_sum(first, -second.hi);
  const double lo = fma_f64(-n, -0x1.f1976b7ed8fbcp-110, sub_f64(sum.lo, second.lo));
  return {fast_two_sum(sum.hi, lo), static_cast<unsigned>(static_cast<std::int64_t>(n) & 3)};
}

/// sin(r.hi + r.lo) = r + r^3 S(r^2), with the derivative's share of r.lo.
EADEM_FN double sin_of_remainder(DoublePair r) {
  const double z = mul_f64(r.hi, r.hi);
  double s = fma_f64(-0x1.aaa2451f603a0p-41, z, 0x1.61208c43447f3p-33);
  s = fma_f64(s, z, -0x1.ae64528d7605cp-26);
  s = fma_f64(s, z, 0x1.71de3a533083cp-19);
  s = fma_f64(s, z, -0x1.a01a01a018a6cp-13);
  s = fma_f64(s, z, 0x1.111111111110bp-7);
  s = fma_f64(s, z, -0x1.5555555555555p-3);
  const double lo = mul_f64(r.lo, fma_f64(-0.5, z, 1.0));
  return add_f64(r.hi, fma_f64(mul_f64(z, r.hi), s, lo));
}

/// cos(r.hi + r.lo) = 1 - r^2 / 2 + r^4 C(r^2) - r.hi * r.lo, the first difference kept exactly.
EADEM_FN double cos_of_remainder(DoublePair r) {
  const DoublePair square = two_product(r.hi, r.hi);
  const double z = square.hi;
  double c = fma_f64(-0x1.8fa49a1fa8f33p-37, z, 0x1.1ee9d7b5180a7p-29);
  c = fma_f64(c, z, -0x1.27e4f7eac5134p-22);
  c = fma_f64(c, z, 0x1.a01a019c844fep-16);
  c = fma_f64(c, z, -0x1.6c16c16c14f91p-10);
  c = fma_f64(c, z, 0x1.555555555554bp-5);
  const DoublePair head = fast_two_sum(1.0, mul_f64(-0.5, z));
  const double lo = fma_f64(-0.5, square.lo, fma_f64(-r.hi, r.lo, head.lo));
  return add_f64(head.hi, fma_f64(mul_f64(z, z), c, lo));
}

/// sin x and cos x for |x| <= 2^32; NaN beyond, and for NaN.
EADEM_FN double sin_f64(double x) {
  if (!(x <= 0x1p32 && x >= -0x1p32)) return nan_f64();
  if (x == 0) return x;
  const ReducedAngle angle = reduce_angle(x);
  const double y = (angle.quadrant & 1) ? cos_of_remainder(angle.remainder) : sin_of_remainder(angle.remainder);
  return (angle.quadrant & 2) ? -y : y;
}
EADEM_FN double cos_f64(double x) {
  if (!(x <= 0x1p32 && x >= -0x1p32)) return nan_f64();
  const ReducedAngle angle = reduce_angle(x);
  const double y = (angle.quadrant & 1) ? sin_of_remainder(angle.remainder) : cos_of_remainder(angle.remainder);
  return ((angle.quadrant + 1) & 2) ? -y : y;
}

/// log of the mantissa m in [2/3, 4/3), as a pair of relative error 2^-61:
/// 2 (s + s (z / 3 + z^2 L(z))) with s = (m - 1) / (m + 1) and z = s^2.
EADEM_FN DoublePair log_of_mantissa(double m) {
  const double f = sub_f64(m, 1.0);
  const DoublePair d = two_sum(m, 1.0);
  const double s = div_f64(f, d.hi);
  const double s_lo = div_f64(fma_f64(-s, d.lo, fma_f64(-s, d.hi, f)), d.hi);
  const DoublePair z = two_product(s, s);
  const double z_lo = fma_f64(add_f64(s, s), s_lo, z.lo);
  double l = fma_f64(0x1.dba47e75c8f4bp-5, z.hi, 0x1.a701b6ed07a75p-5);
  l = fma_f64(l, z.hi, 0x1.e24f3a35a3f81p-5);
  l = fma_f64(l, z.hi, 0x1.110f526d8eac6p-4);
  l = fma_f64(l, z.hi, 0x1.3b13ba30e75c1p-4);
  l = fma_f64(l, z.hi, 0x1.745d172927cbcp-4);
  l = fma_f64(l, z.hi, 0x1.c71c71c752c18p-4);
  l = fma_f64(l, z.hi, 0x1.24924924922e1p-3);
  l = fma_f64(l, z.hi, 0x1.999999999999ap-3);
  const DoublePair third = two_product(z.hi, 0x1.5555555555555p-2);
  const double third_lo = fma_f64(z.hi, 0x1.5555555555555p-56, fma_f64(z_lo, 0x1.5555555555555p-2, third.lo));
  const DoublePair w = fast_two_sum(third.hi, mul_f64(mul_f64(z.hi, z.hi), l));
  const double w_lo = add_f64(w.lo, third_lo);
  const DoublePair p = two_product(s, w.hi);
  const double p_lo = fma_f64(s, w_lo, fma_f64(s_lo, w.hi, p.lo));
  const DoublePair sum = fast_two_sum(s, p.hi);
  const double lo = add_f64(sum.lo, add_f64(s_lo, p_lo));
  return {mul_f64(2.0, sum.hi), mul_f64(2.0, lo)};
}

/// log x for finite x > 0 as a normalised pair.
EADEM_FN DoublePair log_pair(double x) {
  const bool small = x < 0x1p-1022;
  const double y = small ? mul_f64(x, 0x1p52) : x;
  const std::int64_t k = static_cast<std::int64_t>(bits_of(y) - 0x3fe5555555555556u) >> 52;
  const double m = double_of(bits_of(y) - (static_cast<std::uint64_t>(k) << 52));
  const double e = static_cast<double>(small ? k - 52 : k);
  const DoublePair part = log_of_mantissa(m);
  const DoublePair sum = fast_two_sum(mul_f64(e, 0x1.62e42fefa3800p-1), part.hi);  // 42 bits by 11: exact
  const double lo = add_f64(sum.lo, fma_f64(e, 0x1.ef35793c76730p-45, part.lo));
  return fast_two_sum(sum.hi, lo);
}

/// e^(hi + lo), |lo| far below |hi|. 0 where it is below 2^-1022, infinity above the largest double.
EADEM_FN double exp_of_pair(double hi, double lo) {
  if (hi != hi) return nan_f64();
  if (hi > 0x1.62e42fefa39efp+9) return infinity_f64();
  if (hi < -0x1.6232bdd7abcd2p+9) return 0.0;
  const double n = rint_f64(mul_f64(hi, 0x1.71547652b82fep+0));
  const double rest = fma_f64(-n, 0x1.62e42fefa3800p-1, hi);  // exact
  const DoublePair r = two_sum(rest, mul_f64(-n, 0x1.ef35793c76730p-45));
  const double f = r.hi;
  double q = fma_f64(0x1.1e3cf51f942efp-29, f, 0x1.af6bf18264c14p-26);
  q = fma_f64(q, f, 0x1.27e5b474d828cp-22);
  q = fma_f64(q, f, 0x1.71ddf01b848cbp-19);
  q = fma_f64(q, f, 0x1.a01a013674056p-16);
  q = fma_f64(q, f, 0x1.a01a01b3803e5p-13);
  q = fma_f64(q, f, 0x1.6c16c16c304fdp-10);
  q = fma_f64(q, f, 0x1.111111110ec58p-7);
  q = fma_f64(q, f, 0x1.5555555555503p-5);
  q = fma_f64(q, f, 0x1.555555555555bp-3);
  q = fma_f64(q, f, 0x1.0000000000000p-1);
  const DoublePair head = fast_two_sum(1.0, f);
  const double square = mul_f64(mul_f64(f, f), q);
  const double slope = add_f64(head.hi, square);  // e^f again, by which the low parts count
  const double y = add_f64(head.hi, add_f64(head.lo, fma_f64(add_f64(r.lo, lo), slope, square)));
  const std::int64_t exponent = static_cast<std::int64_t>(n);
  return double_of(bits_of(y) + (static_cast<std::uint64_t>(exponent) << 52));
}

/// e^x; 0 where it is below 2^-1022.
EADEM_FN double exp_f64(double x) { return exp_of_pair(x, 0.0); }

/// log x for any x >= 0; NaN below 0.
EADEM_FN double log_f64(double x) {
  if (!(x >= 0)) return nan_f64();
  if (x == 0) return -infinity_f64();
  return x > 0x1.fffffffffffffp+1023 ? x : log_pair(x).hi;
}

/// base^y for a finite base > 0 and a finite y; NaN for all others. 0 where it is below 2^-1022. Below 0.6 units of the
/// last place for |y log(base)| <= 64, which covers every rope base; below 1 beyond.
EADEM_FN double pow_f64(double base, double y) {
  if (!(base > 0 && base <= 0x1.fffffffffffffp+1023) || !(y - y == 0)) return nan_f64();
  const DoublePair l = log_pair(base);
  const DoublePair p = two_product(y, l.hi);
  if (!(p.hi <= 0x1p20 && p.hi >= -0x1p20)) return p.hi > 0 ? infinity_f64() : 0.0;
  return exp_of_pair(p.hi, fma_f64(y, l.lo, p.lo));
}

}  // namespace eadem::numerics
