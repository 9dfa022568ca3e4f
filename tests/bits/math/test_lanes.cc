// The functions over a value type of lanes, as kernels use them: every lane has the bits of the scalar function. This
// type also shows the smallest set of functions that a value type needs (numerics/math.h).
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "numerics/rng.h"

namespace eadem::test {
namespace lanes {

struct Mask {
  std::array<bool, 8> lane;
};

struct Lanes {
  Lanes() = default;
  explicit Lanes(float x) { lane.fill(x); }
  std::array<float, 8> lane{};
};

template <class F>
Lanes each(F f) {
  Lanes r;
  for (std::size_t i = 0; i < 8; ++i) r.lane[i] = f(i);
  return r;
}
template <class F>
Mask each_mask(F f) {
  Mask r;
  for (std::size_t i = 0; i < 8; ++i) r.lane[i] = f(i);
  return r;
}

Lanes add(Lanes a, Lanes b) {
  return each([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
}
Lanes sub(Lanes a, Lanes b) {
  return each([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
}
Lanes mul(Lanes a, Lanes b) {
  return each([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
}
Lanes div(Lanes a, Lanes b) {
  return each([&](std::size_t i) { return a.lane[i] / b.lane[i]; });
}
Lanes fma(Lanes a, Lanes b, Lanes c) {
  return each([&](std::size_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
Lanes max(Lanes a, Lanes b) {
  return each([&](std::size_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
Mask lt(Lanes a, Lanes b) {
  return each_mask([&](std::size_t i) { return a.lane[i] < b.lane[i]; });
}
Mask is_nan(Lanes a) {
  return each_mask([&](std::size_t i) { return a.lane[i] != a.lane[i]; });
}
Lanes select(Mask m, Lanes a, Lanes b) {
  return each([&](std::size_t i) { return m.lane[i] ? a.lane[i] : b.lane[i]; });
}
Lanes add_to_exponent(Lanes p, Lanes z) {
  return each([&](std::size_t i) {
    std::uint32_t u = 0;
    std::uint32_t v = 0;
    std::memcpy(&u, &p.lane[i], 4);
    std::memcpy(&v, &z.lane[i], 4);
    u += v << 23;
    float r = 0;
    std::memcpy(&r, &u, 4);
    return r;
  });
}
Lanes exponent_of(Lanes x) {
  return each([&](std::size_t i) { return numerics::exponent_of(x.lane[i]); });
}
Lanes mantissa_of(Lanes x) {
  return each([&](std::size_t i) { return numerics::mantissa_of(x.lane[i]); });
}

}  // namespace lanes

namespace {

using numerics::bits_of;
using numerics::float_of;

template <class Scalar, class Vector>
std::uint64_t count_differences(Scalar scalar, Vector vector, std::uint64_t& compared) {
  std::uint64_t different = 0;
  for (std::uint64_t u = 0; u < (1ull << 32) - 8 * 32771; u += 8 * 32771) {
    lanes::Lanes x;
    for (std::uint32_t i = 0; i < 8; ++i) x.lane[i] = float_of(static_cast<std::uint32_t>(u + i * 32771));
    const lanes::Lanes y = vector(x);
    for (std::size_t i = 0; i < 8; ++i) {
      different += bits_of(y.lane[i]) != bits_of(scalar(x.lane[i]));
      ++compared;
    }
  }
  return different;
}

TEST(Lanes, HaveTheBitsOfScalars) {
  using lanes::Lanes;
  std::uint64_t n = 0;
  EXPECT_EQ(count_differences(numerics::exp32<float>, numerics::exp32<Lanes>, n), 0u);
  EXPECT_EQ(count_differences(numerics::log32<float>, numerics::log32<Lanes>, n), 0u);
  EXPECT_EQ(count_differences(numerics::log1p32<float>, numerics::log1p32<Lanes>, n), 0u);
  EXPECT_EQ(count_differences(numerics::sigmoid32<float>, numerics::sigmoid32<Lanes>, n), 0u);
  EXPECT_EQ(count_differences(numerics::exp2_full<float>, numerics::exp2_full<Lanes>, n), 0u);
  EXPECT_EQ(count_differences(numerics::exp2p<float>, numerics::exp2p<Lanes>, n), 0u);
  const auto swiglu = [](auto x) { return numerics::swiglu32(x, decltype(x)(1.7f)); };
  const auto without_nan = [&](float x) { return x == x ? swiglu(x) : 0.0f; };
  const auto lanes_without_nan = [&](Lanes x) { return lanes::select(lanes::is_nan(x), Lanes(0.0f), swiglu(x)); };
  EXPECT_EQ(count_differences(without_nan, lanes_without_nan, n), 0u);
  EXPECT_EQ(count_differences([](float x) { return numerics::gumbel(numerics::uniform_w(bits_of(x))); },
                              [](Lanes x) {
                                for (float& l : x.lane) l = numerics::uniform_w(bits_of(l));
                                return numerics::gumbel(x);
                              },
                              n),
            0u);
  EXPECT_GT(n, 1'000'000u);
}

TEST(Lanes, TheComparisonSeesAnotherFunction) {  // the negative control: the plain form of sigmoid is not this one
  std::uint64_t n = 0;
  const auto other = [](lanes::Lanes x) {
    return lanes::div(lanes::Lanes(1.0f),
                      lanes::add(lanes::Lanes(1.0f), numerics::exp32(lanes::sub(lanes::Lanes(0.0f), x))));
  };
  EXPECT_GT(count_differences(numerics::sigmoid32<float>, other, n), 0u);
}

}  // namespace
}  // namespace eadem::test
