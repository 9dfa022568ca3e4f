// The float32 functions on a dense sample: a stride through all 2^32 bit patterns, and the neighbourhoods of every
// place where a rule or a reduction changes. math_exhaustive.cc covers the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bits/math/reference.h"

namespace eadem::test {
namespace {

using numerics::bits_of;
using numerics::float_of;

const float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

void check(const Function& function, std::uint32_t u, std::uint64_t& judged) {
  const float x = float_of(u);
  const float y = function.ours(x);
  double error = 0;
  std::uint64_t by_mpfr = 0;
  const Verdict verdict = judge(function, x, y, error, by_mpfr);
  ++judged;
  if (verdict == Verdict::kWrong) {
    ADD_FAILURE() << function.name << "(" << std::hexfloat << x << ") = " << y << ", error " << std::defaultfloat
                  << error << " ulp";
  }
}

class EachFunction : public testing::TestWithParam<int> {
 protected:
  const Function& function() const { return kFunctions[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(Math, EachFunction, testing::Range(0, 4),
                         [](const auto& each) { return kFunctions[each.param].name; });

TEST_P(EachFunction, IsWithinItsBoundOnAStrideThroughAllFloats) {
  constexpr std::uint64_t kStride = 1021;  // prime: every exponent gets about 8,000 different significands
  std::uint64_t judged = 0;
  for (std::uint64_t u = 0; u < (1ull << 32); u += kStride) check(function(), static_cast<std::uint32_t>(u), judged);
  EXPECT_EQ(judged, ((1ull << 32) + kStride - 1) / kStride);
}

TEST_P(EachFunction, IsWithinItsBoundAroundEveryBoundary) {
  std::vector<float> centres = {0x1.62e42ep+6f, -0x1.5d589ep+6f, 0x1p-126f, 0x1p-149f, -1.0f,
                                0x1p-30f,       0x1p+100f,       0x1p+24f,  88.0f};
  for (int k = -130; k <= 128; ++k) {  // where exp's reduction steps
    const double middle = (k + 0.5) * std::log(2.0);
    centres.push_back(static_cast<float>(middle));
  }
  for (int e = -126; e <= 127; ++e) {  // where log's reduction steps, and powers of two
    centres.push_back(std::ldexp(1.0f, e));
    centres.push_back(std::ldexp(0x1.555556p+0f, e));
    centres.push_back(std::ldexp(0x1.555556p+0f, e) - 1.0f);
    centres.push_back(std::ldexp(1.0f, e) - 1.0f);
  }
  std::uint64_t judged = 0;
  for (float centre : centres) {
    for (std::uint32_t i = 0; i < 129; ++i) {
      check(function(), bits_of(centre) + i - 64, judged);
      check(function(), (bits_of(centre) ^ 0x80000000u) + i - 64, judged);
    }
  }
  EXPECT_EQ(judged, centres.size() * 2 * 129);
}

TEST_P(EachFunction, TheJudgeRefusesWrongAnswers) {  // the negative control
  std::uint64_t by_mpfr = 0;
  double error = 0;
  for (float x : {0.75f, 1.5f, 3.25f, 0.01f}) {
    const float y = function().ours(x);
    const float off = float_of(bits_of(y) + 3);
    EXPECT_EQ(judge(function(), x, off, error, by_mpfr), Verdict::kWrong) << x;
    EXPECT_EQ(judge(function(), x, kNan, error, by_mpfr), Verdict::kWrong) << x;
    EXPECT_EQ(judge(function(), x, kInf, error, by_mpfr), Verdict::kWrong) << x;
    EXPECT_EQ(judge(function(), kNan, y, error, by_mpfr), Verdict::kWrong) << x;
  }
}

TEST_P(EachFunction, ReturnsOneNanForEveryNan) {
  for (std::uint32_t u : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00000u, 0xffffffffu, 0x7fabcdefu}) {
    EXPECT_EQ(bits_of(function().ours(float_of(u))), 0x7fc00000u) << std::hex << u;
  }
}

TEST(Math, SpecialValuesOfExp) {
  using numerics::exp32;
  EXPECT_EQ(bits_of(exp32(0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(exp32(-0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(exp32(kInf)), bits_of(kInf));
  EXPECT_EQ(bits_of(exp32(-kInf)), 0u);
  EXPECT_EQ(bits_of(exp32(0x1.62e430p+6f)), bits_of(kInf));
  EXPECT_TRUE(std::isfinite(exp32(0x1.62e42ep+6f)));
  EXPECT_EQ(bits_of(exp32(-0x1.5d58a0p+6f)), 0u);
  EXPECT_GE(exp32(-0x1.5d589ep+6f), 0x1p-126f);
}

TEST(Math, SpecialValuesOfLogAndLog1p) {
  using numerics::log1p32;
  using numerics::log32;
  EXPECT_EQ(bits_of(log32(0.0f)), bits_of(-kInf));
  EXPECT_EQ(bits_of(log32(-0.0f)), bits_of(-kInf));
  EXPECT_EQ(bits_of(log32(-0x1p-149f)), 0x7fc00000u);
  EXPECT_EQ(bits_of(log32(-kInf)), 0x7fc00000u);
  EXPECT_EQ(bits_of(log32(kInf)), bits_of(kInf));
  EXPECT_EQ(bits_of(log32(1.0f)), 0u);
  EXPECT_EQ(bits_of(log1p32(0.0f)), 0u);
  EXPECT_EQ(bits_of(log1p32(-0.0f)), 0x80000000u);
  EXPECT_EQ(bits_of(log1p32(-1.0f)), bits_of(-kInf));
  EXPECT_EQ(bits_of(log1p32(-0x1.000002p+0f)), 0x7fc00000u);
  EXPECT_EQ(bits_of(log1p32(-kInf)), 0x7fc00000u);
  EXPECT_EQ(bits_of(log1p32(kInf)), bits_of(kInf));
  EXPECT_EQ(bits_of(log1p32(0x1p-149f)), 1u);
}

TEST(Math, SpecialValuesOfSigmoidAndSwiglu) {
  using numerics::sigmoid32;
  using numerics::swiglu32;
  EXPECT_EQ(sigmoid32(0.0f), 0.5f);
  EXPECT_EQ(bits_of(sigmoid32(kInf)), bits_of(1.0f));
  EXPECT_EQ(bits_of(sigmoid32(-kInf)), 0u);
  EXPECT_EQ(bits_of(sigmoid32(-0x1.5d58a0p+6f)), 0u);
  EXPECT_EQ(swiglu32(0.0f, 5.0f), 0.0f);
  EXPECT_EQ(swiglu32(100.0f, 2.0f), 200.0f);
  EXPECT_EQ(swiglu32(-100.0f, 2.0f), 0.0f);
  const float g = 1.25f;
  EXPECT_EQ(bits_of(swiglu32(g, 3.0f)), bits_of((g / (1.0f + numerics::exp32(-g))) * 3.0f));
}

TEST(Math, PowersOfTwoOfAttention) {
  using numerics::exp2_full;
  using numerics::exp2p;
  double worst_p = 0;
  double worst_full = 0;
  std::uint64_t count = 0;
  for (int i = 0; i <= 59 * 8191; ++i) {
    const float x = static_cast<float>(-50 + i / 8191.0);
    const double exact = std::exp2(static_cast<double>(x));
    worst_p = std::fmax(worst_p, std::fabs(static_cast<double>(exp2p(x)) / exact - 1));
    worst_full = std::fmax(worst_full, std::fabs(static_cast<double>(exp2_full(x)) / exact - 1));
    ++count;
  }
  EXPECT_GT(count, 400000u);
  EXPECT_LT(worst_p, 1.03e-4);
  EXPECT_GT(worst_p, 1.0e-4);  // degree 3, not better
  EXPECT_LT(worst_full, 1.2e-7);
  for (int n = -50; n <= 9; ++n) {
    EXPECT_EQ(exp2p(static_cast<float>(n)), std::ldexp(1.0f, n));
    EXPECT_EQ(exp2_full(static_cast<float>(n)), std::ldexp(1.0f, n));
  }
  for (float t : {-126.0f, -126.5f, -127.0f, -1000.0f, -0x1p+100f, -kInf}) EXPECT_EQ(exp2_full(t), 0x1p-126f) << t;
  for (int i = 0; i < 65536; ++i) {
    const float t = -126.0f + static_cast<float>(i) * 0x1p-15f;
    EXPECT_GE(exp2_full(t), 0x1p-126f) << t;
  }
}

TEST(Math, PowersOfTwoFollowTheWrittenSteps) {
  for (float t : {-49.99f, -17.3f, -0.5f, -0.25f, 0.49f, 1.5f, 2.5f, 8.99f}) {
    const float r = (t + 12582912.0f) - 12582912.0f;
    const float f = t - r;
    const float p = std::fma(std::fma(std::fma(0x1.c2a218p-5f, f, 0x1.f00c4ep-3f), f, 0x1.62f5fap-1f), f, 1.0f);
    EXPECT_EQ(bits_of(numerics::exp2p(t)), bits_of(std::ldexp(p, static_cast<int>(r)))) << t;
  }
}

TEST(Math, RintIsNearestEven) {
  std::uint64_t different = 0;
  for (std::uint64_t u = 0; u < (1ull << 32); u += 4099) {
    const float x = float_of(static_cast<std::uint32_t>(u));
    if (x == x) different += bits_of(numerics::rint_f32(x)) != bits_of(std::nearbyint(x));
  }
  EXPECT_EQ(different, 0u);
  for (float x : {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0x1.fffffep+22f, 0x1p+23f, -0x1p+23f, -0.0f, kInf, -kInf}) {
    EXPECT_EQ(bits_of(numerics::rint_f32(x)), bits_of(std::nearbyint(x))) << x;
    EXPECT_EQ(bits_of(numerics::rint_f64(static_cast<double>(x))), bits_of(std::nearbyint(static_cast<double>(x))))
        << x;
  }
}

TEST(Math, FmaRoundsOnce) {
  // 1 + 2^-12 squared less its rounded square: zero if the product were rounded before the addition.
  const float a = 1.0f + 0x1p-12f;
  volatile float x = a;
  const float square = numerics::mul_f32(x, x);
  EXPECT_EQ(numerics::fma_f32(x, x, -square), 0x1p-24f);
  EXPECT_EQ(numerics::sub_f32(numerics::mul_f32(x, x), square), 0.0f);
  volatile double y = 1.0 + 0x1p-27;
  const double wide = numerics::mul_f64(y, y);
  EXPECT_EQ(numerics::fma_f64(y, y, -wide), 0x1p-54);
}

}  // namespace
}  // namespace eadem::test
