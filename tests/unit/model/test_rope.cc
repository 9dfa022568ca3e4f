// Rope's tables against the C library's long double functions, and its scalings against their definitions.
#include <gtest/gtest.h>

#include <cmath>

#include "model/rope.h"

namespace eadem::model {
namespace {

RopeConfig config_of(RopeScaling scaling) {
  RopeConfig config;
  config.theta = 500000.0;
  config.rotary = 64;
  config.scaling = scaling;
  config.factor = 8.0;
  config.original_context = 8192;
  return config;
}

TEST(Rope, AnglesAreRoundedOnce) {
  const Rope rope(config_of(RopeScaling::kNone));
  std::vector<float> cosine(32), sine(32);
  for (const int64_t position :
       {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{4097}, int64_t{131071}, int64_t{1} << 20}) {
    rope.angles(position, cosine.data(), sine.data());
    for (int pair = 0; pair < 32; ++pair) {
      const double angle = static_cast<double>(position) * rope.frequencies()[pair];
      EXPECT_EQ(cosine[pair], static_cast<float>(cosl(static_cast<long double>(angle)))) << position << " " << pair;
      EXPECT_EQ(sine[pair], static_cast<float>(sinl(static_cast<long double>(angle)))) << position << " " << pair;
    }
  }
}

TEST(AngleTable, KeepsTheBitsOfTheRope) {
  const Rope rope(config_of(RopeScaling::kLlama3));
  AngleTable table = AngleTable::create(rope, 1 << 20).value();
  std::vector<float> expected(64), got(64);
  for (int round = 0; round < 2; ++round) {  // the second finds what the first left
    for (const int64_t position : {5, 0, 63, 4097, 131071, 131072, 1 << 19, 6}) {
      rope.angles(position, expected.data(), expected.data() + 32);
      table.angles(position, got.data(), got.data() + 32);
      EXPECT_EQ(got, expected) << position << " round " << round;
    }
  }
  EXPECT_NE(got, std::vector<float>(64));
}

TEST(Rope, FrequenciesArePowersOfTheBase) {
  const Rope rope(config_of(RopeScaling::kNone));
  for (int pair = 0; pair < 32; ++pair) {
    const double expected = static_cast<double>(1.0L / powl(500000.0L, 2.0L * pair / 64));
    EXPECT_NEAR(rope.frequencies()[pair] / expected, 1.0, 1e-15);
  }
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  const Rope plain(config_of(RopeScaling::kNone)), scaled(config_of(RopeScaling::kLinear));
  for (int pair = 0; pair < 32; ++pair) EXPECT_EQ(scaled.frequencies()[pair], plain.frequencies()[pair] / 8.0);
}

TEST(Rope, Llama3KeepsShortWavesAndSlowsLongOnes) {
  RopeConfig config = config_of(RopeScaling::kLlama3);
  config.low_freq_factor = 1.0, config.high_freq_factor = 4.0;
  const Rope plain(config_of(RopeScaling::kNone)), scaled(config);
  int kept = 0, slowed = 0, blended = 0;
  for (int pair = 0; pair < 32; ++pair) {
    const double ratio = scaled.frequencies()[pair] / plain.frequencies()[pair];
    const double wavelength = 2 * M_PI / plain.frequencies()[pair];
    if (wavelength < 8192 / 4.0) {
      EXPECT_EQ(ratio, 1.0);
      ++kept;
    } else if (wavelength > 8192) {
      EXPECT_EQ(ratio, 0.125);
      ++slowed;
    } else {
      EXPECT_GT(ratio, 0.125);
      EXPECT_LT(ratio, 1.0);
      ++blended;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(blended, 0);
}

TEST(Rope, FactorsOfTheFileDivideFrequencies) {
  RopeConfig config = config_of(RopeScaling::kNone);
  config.frequency_factors.assign(32, 1.0);
  config.frequency_factors[5] = 4.0;
  const Rope plain(config_of(RopeScaling::kNone)), scaled(config);
  EXPECT_EQ(scaled.frequencies()[5], plain.frequencies()[5] / 4.0);
  EXPECT_EQ(scaled.frequencies()[6], plain.frequencies()[6]);
}

}  // namespace
}  // namespace eadem::model
