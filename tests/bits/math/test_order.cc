// The total order of tokens, and top-p's integers against exact arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numerics/order.h"
#include "numerics/rng.h"

namespace eadem::test {
namespace {

using namespace numerics;

const float kInf = std::numeric_limits<float>::infinity();

TEST(Order, LogitsDescendThenTokensAscend) {
  const float ordered[] = {kInf, 0x1.fffffep+127f, 2.0f,       1.0f,  0x1p-126f, 0x1p-149f,
                           0.0f, -0x1p-149f,       -0x1p-126f, -1.0f, -2.0f,     -kInf};
  for (std::size_t i = 0; i + 1 < std::size(ordered); ++i) {
    EXPECT_TRUE(comes_before(ordered[i], 9, ordered[i + 1], 1)) << i;
    EXPECT_FALSE(comes_before(ordered[i + 1], 1, ordered[i], 9)) << i;
    EXPECT_TRUE(comes_before(ordered[i], 1, ordered[i], 2)) << i;
    EXPECT_FALSE(comes_before(ordered[i], 2, ordered[i], 1)) << i;
    EXPECT_FALSE(comes_before(ordered[i], 2, ordered[i], 2)) << i;
  }
  EXPECT_TRUE(comes_before(-0.0f, 1, 0.0f, 2));
  EXPECT_TRUE(comes_before(0.0f, 1, -0.0f, 2));
  EXPECT_EQ(order_key(-0.0f, 3), order_key(0.0f, 3));
  for (std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0xffc00000u, 0xffffffffu}) {
    EXPECT_TRUE(comes_before(-kInf, 5, float_of(nan), 4));
  }
}

TEST(Order, KeysSortAsAPlainComparisonDoes) {
  std::vector<std::pair<float, std::uint32_t>> tokens;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const float logit = static_cast<float>(static_cast<int>(splitmix64(i) % 401) - 200) * 0.125f;  // many ties
    tokens.emplace_back(i % 7 == 0 ? -logit : logit, i);
  }
  auto plain = tokens;
  std::stable_sort(plain.begin(), plain.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::uint64_t> keys;
  for (const auto& [logit, token] : tokens) keys.push_back(order_key(logit, token));
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(token_of_key(keys[i]), plain[i].second) << i;
}

TEST(Order, TopPWeights) {
  EXPECT_EQ(top_p_weight(0.0f), 0u);
  EXPECT_EQ(top_p_weight(1.0f), std::uint64_t{1} << 31);
  EXPECT_EQ(top_p_weight(0x1p-32f), 0u);    // a half, to even
  EXPECT_EQ(top_p_weight(0x1.8p-31f), 2u);  // one and a half, to even
  EXPECT_EQ(top_p_weight(0x1.4p-30f), 2u);  // two and a half, to even
  EXPECT_EQ(top_p_weight(0x1.fffffep-1f), 0x7fffff80u);
}

TEST(Order, TopPThresholdIsTheExactCeiling) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t checked = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const int exponent = -static_cast<int>(splitmix64(3 * i) % 34);
    const float p = std::ldexp(1.0f + static_cast<float>(splitmix64(3 * i + 1) >> 41) * 0x1p-23f, exponent - 1);
    const std::uint64_t total = splitmix64(3 * i + 2) >> (2 + splitmix64(i) % 50);
    int e = 0;
    const float half = std::frexp(p, &e);
    const Wide product = static_cast<Wide>(static_cast<std::uint64_t>(half * 0x1p24f)) * total;
    const int shift = 24 - e;
    const Wide expected = (product >> shift) + ((product & ((static_cast<Wide>(1) << shift) - 1)) != 0);
    ASSERT_EQ(top_p_threshold(p, total), static_cast<std::uint64_t>(expected)) << std::hexfloat << p << " " << total;
    ++checked;
  }
  EXPECT_EQ(checked, 200000u);
  EXPECT_EQ(top_p_threshold(1.0f, 12345), 12345u);
  EXPECT_EQ(top_p_threshold(0.5f, 3), 2u);
  EXPECT_EQ(top_p_threshold(0x1p-149f, 3), 1u);
  EXPECT_EQ(top_p_threshold(0x1p-100f, 0), 0u);
  EXPECT_EQ(top_p_threshold(0x1p-50f, std::uint64_t{1} << 61), 2048u);
}

}  // namespace
}  // namespace eadem::test
