// Rope's double functions against MPFR, on samples of the ranges that rope uses and on their edges.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/double_math.h"
#include "numerics/rng.h"

namespace eadem::test {
namespace {

using namespace numerics;

// Uniform in [0, 1), by a fixed sequence.
double draw(std::uint64_t i) { return static_cast<double>(splitmix64(i * 0x9E3779B97F4A7C15u) >> 11) * 0x1p-53; }

class Mpfr {
 public:
  Mpfr() {
    mpfr_init2(r_, 200);
    mpfr_init2(a_, 200);
    mpfr_init2(b_, 200);
  }
  ~Mpfr() {
    mpfr_clear(r_);
    mpfr_clear(a_);
    mpfr_clear(b_);
  }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;

  template <class F>
  double error(F f, double x, double ours) {
    mpfr_set_d(a_, x, MPFR_RNDN);
    f(r_, a_, MPFR_RNDN);
    return distance(ours);
  }
  double pow_error(double base, double y, double ours) {
    mpfr_set_d(a_, base, MPFR_RNDN);
    mpfr_set_d(b_, y, MPFR_RNDN);
    mpfr_pow(r_, a_, b_, MPFR_RNDN);
    return distance(ours);
  }

 private:
  double distance(double ours) {  // in units of the last place of the exact value
    const mpfr_exp_t exponent = mpfr_zero_p(r_) ? -1000 : mpfr_get_exp(r_) - 1;
    mpfr_sub_d(r_, r_, ours, MPFR_RNDN);
    mpfr_mul_2si(r_, r_, 52 - exponent, MPFR_RNDN);
    return std::fabs(mpfr_get_d(r_, MPFR_RNDN));
  }
  mpfr_t r_, a_, b_;
};

TEST(DoubleMath, SinAndCosOfRopeAngles) {
  Mpfr mpfr;
  double worst_sin = 0;
  double worst_cos = 0;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < 120000; ++i) {
    // position * frequency: positions below 2^20, frequencies from 1 down to 10^-7; and every fourth any angle up to
    // 2^32.
    const double position = std::floor(draw(3 * i) * 0x1p20);
    double x = position * std::exp(-16.0 * draw(3 * i + 1));
    if (i % 4 == 1) x = (draw(3 * i) - 0.5) * std::ldexp(1.0, static_cast<int>(draw(3 * i + 2) * 63) - 30);
    if (i % 4 == 2) x = position;
    worst_sin = std::fmax(worst_sin, mpfr.error(mpfr_sin, x, sin_f64(x)));
    worst_cos = std::fmax(worst_cos, mpfr.error(mpfr_cos, x, cos_f64(x)));
    ++count;
  }
  EXPECT_EQ(count, 120000u);
  EXPECT_LT(worst_sin, 0.8);
  EXPECT_LT(worst_cos, 0.8);
  RecordProperty("worst_sin", std::to_string(worst_sin));
  RecordProperty("worst_cos", std::to_string(worst_cos));
}

TEST(DoubleMath, SinAndCosNextToMultiplesOfAQuarterTurn) {
  Mpfr mpfr;
  double worst = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double n = i < 10000 ? static_cast<double>(i) : std::floor(draw(i) * 0x1p31);
    for (double half : {0.0, 0.5}) {
      double x = (n + half) * 0x1.921fb54442d18p+0;
      if (i % 3 == 1) x = std::nextafter(x, 0.0);
      if (i % 3 == 2) x = std::nextafter(x, 1e300);
      worst = std::fmax(worst, mpfr.error(mpfr_sin, x, sin_f64(x)));
      worst = std::fmax(worst, mpfr.error(mpfr_cos, -x, cos_f64(-x)));
    }
  }
  EXPECT_LT(worst, 0.8);
  // A double whose remainder is near zero after an odd multiple.
  const double hard = 3.0 * 0x1.921fb54442d18p+0;
  EXPECT_LT(mpfr.error(mpfr_cos, hard, cos_f64(hard)), 0.8);
}

TEST(DoubleMath, ExpAndLog) {
  Mpfr mpfr;
  double worst_exp = 0;
  double worst_log = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double x = i % 2 ? (draw(i) - 0.5) * 2 * 708 : (draw(i) - 0.5) * 4;
    worst_exp = std::fmax(worst_exp, mpfr.error(mpfr_exp, x, exp_f64(x)));
    const double near_one = 1 + (draw(i + 7) - 0.5) * std::ldexp(1.0, -static_cast<int>(i % 50));
    const double y = i % 2 ? double_of(static_cast<std::uint64_t>(draw(i + 7) * 0x1.ffcp62)) : near_one;
    if (y > 0) worst_log = std::fmax(worst_log, mpfr.error(mpfr_log, y, log_f64(y)));
  }
  EXPECT_LT(worst_exp, 0.6);
  EXPECT_LT(worst_log, 0.6);
  RecordProperty("worst_exp", std::to_string(worst_exp));
  RecordProperty("worst_log", std::to_string(worst_log));
}

TEST(DoubleMath, PowOfRopeBases) {
  Mpfr mpfr;
  double worst = 0;
  std::uint64_t count = 0;
  for (double base : {10000.0, 100000.0, 500000.0, 1000000.0, 5000000.0, 1e7, 8192.0, 2.0, 1.5, 130000.0, 0.25}) {
    for (int d : {8, 16, 64, 80, 96, 128, 256}) {
      for (int i = 0; i <= d / 2; ++i) {
        const double y = -2.0 * i / d;
        worst = std::fmax(worst, mpfr.pow_error(base, y, pow_f64(base, y)));
        ++count;
      }
    }
  }
  for (std::uint64_t i = 0; i < 60000; ++i) {
    const double base = std::exp((draw(2 * i) - 0.3) * 20);
    const double y = (draw(2 * i + 1) - 0.5) * 4;
    worst = std::fmax(worst, mpfr.pow_error(base, y, pow_f64(base, y)));
  }
  EXPECT_EQ(count, 11u * (5 + 9 + 33 + 41 + 49 + 65 + 129));
  EXPECT_LT(worst, 0.6);
  RecordProperty("worst_pow", std::to_string(worst));
  double wide = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double base = std::exp((draw(2 * i) - 0.5) * 200);
    const double y = (draw(2 * i + 1) - 0.5) * 13;
    wide = std::fmax(wide, mpfr.pow_error(base, y, pow_f64(base, y)));
  }
  EXPECT_LT(wide, 1.0);
}

TEST(DoubleMath, TheMeasureSeesOneUnit) {  // the negative control
  Mpfr mpfr;
  for (double x : {0.7, 3.0, 1234.5}) {
    EXPECT_GT(mpfr.error(mpfr_sin, x, std::nextafter(std::nextafter(sin_f64(x), 2.0), 2.0)), 1.0);
    EXPECT_GT(mpfr.pow_error(x, 0.3, std::nextafter(std::nextafter(pow_f64(x, 0.3), 1e9), 1e9)), 1.0);
  }
}

TEST(DoubleMath, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(bits_of(sin_f64(0.0)), 0u);
  EXPECT_EQ(bits_of(sin_f64(-0.0)), bits_of(-0.0));
  EXPECT_EQ(cos_f64(0.0), 1.0);
  EXPECT_EQ(sin_f64(0x1p-1074), 0x1p-1074);
  for (double x : {inf, -inf, nan, 0x1.0000001p+32, 1e300}) {
    EXPECT_EQ(bits_of(sin_f64(x)), 0x7ff8000000000000u) << x;
    EXPECT_EQ(bits_of(cos_f64(x)), 0x7ff8000000000000u) << x;
  }
  EXPECT_EQ(exp_f64(0.0), 1.0);
  EXPECT_EQ(exp_f64(-709.0), 0.0);
  EXPECT_EQ(exp_f64(710.0), inf);
  EXPECT_EQ(exp_f64(inf), inf);
  EXPECT_EQ(exp_f64(-inf), 0.0);
  EXPECT_TRUE(std::isnan(exp_f64(nan)));
  EXPECT_EQ(bits_of(log_f64(1.0)), 0u);
  EXPECT_EQ(log_f64(0.0), -inf);
  EXPECT_EQ(log_f64(inf), inf);
  EXPECT_TRUE(std::isnan(log_f64(-1.0)));
  EXPECT_TRUE(std::isnan(log_f64(nan)));
  EXPECT_EQ(pow_f64(10000.0, 0.0), 1.0);
  EXPECT_EQ(pow_f64(10000.0, 1.0), 10000.0);
  EXPECT_EQ(pow_f64(2.0, -3.0), 0.125);
  EXPECT_EQ(pow_f64(10.0, 400.0), inf);
  EXPECT_EQ(pow_f64(10.0, -400.0), 0.0);
  EXPECT_EQ(pow_f64(1e300, 1e300), inf);
  for (double base : {0.0, -1.0, inf, nan}) EXPECT_TRUE(std::isnan(pow_f64(base, 0.5))) << base;
  for (double y : {inf, -inf, nan}) EXPECT_TRUE(std::isnan(pow_f64(2.0, y))) << y;
}

}  // namespace
}  // namespace eadem::test
