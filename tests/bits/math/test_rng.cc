// The generator against published answers, and the noise against its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "numerics/rng.h"

namespace eadem::test {
namespace {

using namespace numerics;

void expect_words(const PhiloxBlock& block, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  EXPECT_EQ(block.word[0], a);
  EXPECT_EQ(block.word[1], b);
  EXPECT_EQ(block.word[2], c);
  EXPECT_EQ(block.word[3], d);
}

TEST(Rng, PhiloxGivesThePublishedAnswers) {  // the known-answer vectors of Random123
  expect_words(philox4x32_10(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_words(philox4x32_10(0xffffffffffffffffu, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff),  //
               0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  expect_words(philox4x32_10(0x299f31d0a4093822u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),  //
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Rng, TokensTakeTheirWordOfTheirBlock) {
  std::set<std::uint32_t> seen;
  for (std::uint32_t token = 0; token < 1000; ++token) {
    const PhiloxBlock block = philox4x32_10(1234, token >> 2, 77, 0, 0);
    EXPECT_EQ(token_word(1234, token, 77), block.word[token & 3]);
    seen.insert(token_word(1234, token, 77));
    seen.insert(token_word(1234, token, 78));
    seen.insert(token_word(1235, token, 77));
  }
  EXPECT_EQ(seen.size(), 3000u);
}

TEST(Rng, SplitMixGivesThePublishedAnswers) {
  const std::uint64_t gamma = 0x9E3779B97F4A7C15u;
  EXPECT_EQ(splitmix64(gamma), 0xE220A8397B1DCDAFu);  // the first output from seed 0
  EXPECT_EQ(splitmix64(1234567u + 1 * gamma), 6457827717110365317u);
  EXPECT_EQ(splitmix64(1234567u + 2 * gamma), 3203168211198807973u);
  EXPECT_EQ(splitmix64(1234567u + 3 * gamma), 9817491932198370423u);
  EXPECT_EQ(splitmix64(1234567u + 4 * gamma), 4593380528125082431u);
  EXPECT_EQ(splitmix64(1234567u + 5 * gamma), 16408922859458223821u);
}

TEST(Rng, MixKeepsTheFirstSeedAndBoundsTheOthers) {
  EXPECT_EQ(mix(0xffffffffffffffffu, 0), 0xffffffffffffffffu);
  EXPECT_EQ(mix(1234567, 1), 6457827717110365317u & ((std::uint64_t{1} << 53) - 1));
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    EXPECT_LT(mix(42, i), std::uint64_t{1} << 53);
    seen.insert(mix(42, i));
  }
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(Rng, UniformStaysInsideItsInterval) {
  EXPECT_EQ(uniform_w(0), 0x1p-33f);
  EXPECT_EQ(uniform_w(0xffffffffu), 0x1.fffffep-1f);
  EXPECT_EQ(uniform_w(0xffffff00u), 0x1.fffffep-1f);
  EXPECT_EQ(uniform_w(0x80000000u), 0.5f);
  float last = 0;
  for (std::uint64_t u = 0; u < (1ull << 32); u += 65521) {
    const float w = uniform_w(static_cast<std::uint32_t>(u));
    EXPECT_GE(w, last);
    EXPECT_GT(w, 0.0f);
    EXPECT_LT(w, 1.0f);
    last = w;
  }
}

TEST(Rng, GumbelFollowsItsDefinition) {
  EXPECT_NEAR(gumbel(uniform_w(0)), 22.87, 0.01);
  EXPECT_NEAR(gumbel(uniform_w(0xffffffffu)), -2.81, 0.01);
  double sum = 0;
  double square = 0;
  constexpr int kCount = 200000;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const float g = gumbel(uniform_w(token_word(7, i, 11)));
    const double w = static_cast<double>(uniform_w(token_word(7, i, 11)));
    EXPECT_NEAR(static_cast<double>(g), -std::log(-std::log1p(-w)), 4e-6);
    sum += static_cast<double>(g);
    square += static_cast<double>(g) * static_cast<double>(g);
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5772157, 0.01);                           // Euler's constant
  EXPECT_NEAR(square / kCount - mean * mean, 1.6449341, 0.03);  // pi^2 / 6
}

}  // namespace
}  // namespace eadem::test
