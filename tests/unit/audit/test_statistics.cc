// Statistics against values of tables and of hand computation.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "audit/statistics/multiple.h"
#include "audit/statistics/paired.h"
#include "audit/statistics/proportions.h"
#include "audit/statistics/random.h"
#include "audit/statistics/special.h"
#include "audit/statistics/two_sample.h"

namespace eadem::audit::statistics {
namespace {

TEST(Special, QuantilesOfTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-9);
  EXPECT_NEAR(normal_cdf(-1.0), 0.158655253931457, 1e-12);
  EXPECT_NEAR(student_quantile(0.975, 1.0), 12.7062047364321, 1e-6);
  EXPECT_NEAR(student_quantile(0.975, 10.0), 2.22813885198627, 1e-8);
  EXPECT_NEAR(student_quantile(0.05, 30.0), -1.69726088659396, 1e-8);
  EXPECT_NEAR(beta_cdf(0.3, 2.0, 5.0), 0.579825, 1e-9);  // 1 - (0.7^6 + 6 * 0.3 * 0.7^5)
  EXPECT_NEAR(beta_quantile(beta_cdf(0.123, 7.5, 40.0), 7.5, 40.0), 0.123, 1e-9);
  EXPECT_NEAR(binomial_cdf(3, 10, 0.5), 176.0 / 1024.0, 1e-12);
  EXPECT_EQ(binomial_cdf(10, 10, 0.5), 1.0);
}

TEST(Proportions, IntervalsOfTables) {
  const Estimate exact = clopper_pearson_interval(5, 20);
  EXPECT_NEAR(exact.low, 0.08657147, 1e-7);
  EXPECT_NEAR(exact.high, 0.49104587, 1e-7);
  EXPECT_EQ(clopper_pearson_interval(0, 73).low, 0.0);
  EXPECT_NEAR(clopper_pearson_interval(0, 73).high, 1.0 - std::pow(0.025, 1.0 / 73.0), 1e-9);
  const Estimate score = wilson_interval(5, 20);
  EXPECT_NEAR(score.low, 0.111862, 1e-5);
  EXPECT_NEAR(score.high, 0.468704, 1e-5);
}

TEST(Proportions, PairsThatAgreeHaveNoDifference) {
  const Estimate none = paired_proportion_difference({500, 0, 0, 500});
  EXPECT_EQ(none.value, 0.0);
  EXPECT_LT(none.high, 0.01);
  EXPECT_NEAR(none.low, -none.high, 1e-12);
  const Estimate some = paired_proportion_difference({400, 60, 20, 520});
  EXPECT_NEAR(some.value, -0.04, 1e-12);
  EXPECT_LT(some.high, 0.0);
  EXPECT_NEAR(mcnemar_exact({0, 1, 9, 0}), 22.0 / 1024.0, 1e-12);
  EXPECT_EQ(mcnemar_exact({5, 0, 0, 5}), 1.0);
}

TEST(Paired, MiddlesOfNumbers) {
  const std::vector<double> values = {3.0, 1.0, 2.0, 10.0};
  EXPECT_EQ(median_of(values), 2.5);
  EXPECT_EQ(quantile_of(values, 0.5), 2.0);
  EXPECT_EQ(quantile_of(values, 0.99), 10.0);
  const Estimate student = student_interval(std::vector<double>{1.0, 2.0, 3.0});
  EXPECT_NEAR(student.high, 2.0 + 4.30265273 / std::sqrt(3.0), 1e-6);
}

TEST(Paired, SignedRanksAreExact) {
  const std::vector<double> six = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0};
  EXPECT_EQ(wilcoxon_test(six), 2.0 / 64.0);
  const Estimate all = hodges_lehmann_interval(six);
  EXPECT_EQ(all.value, 3.5);
  EXPECT_EQ(all.low, 1.0);
  EXPECT_EQ(all.high, 6.0);
  EXPECT_EQ(all.confidence, 1.0 - 2.0 / 64.0);
  EXPECT_EQ(hodges_lehmann_interval(std::vector<double>{1.0, 2.0}).confidence, 0.5);
  // -1 and 2, 3, ..., 8: W = 1, which 2 of 256 sums reach from below.
  EXPECT_EQ(wilcoxon_test(std::vector<double>{-1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}), 4.0 / 256.0);
}

TEST(Paired, SignFlipsAreExactWhereFew) {
  EXPECT_EQ(sign_flip_test(std::vector<double>{1.0, 1.0, 1.0, 1.0}, 1), 2.0 / 16.0);
  EXPECT_EQ(sign_flip_test(std::vector<double>(30, 0.0), 1), 1.0);
  EXPECT_EQ(sign_flip_test(std::vector<double>(30, 1.0), 1), 1.0 / 2000.0);
}

TEST(Paired, AShiftIsTheMedianOfDifferences) {
  std::vector<double> a, b;
  for (int i = 0; i < 20; ++i) a.push_back(i), b.push_back(i + 100);
  const Estimate shift = shift_interval(a, b);
  EXPECT_EQ(shift.value, 100.0);
  EXPECT_LT(shift.low, 100.0);
  EXPECT_GT(shift.high, 100.0);
}

TEST(Paired, HallsIntervalLeansToTheLongTail) {
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) values.push_back(std::exp(0.1 * i));
  const Estimate student = student_interval(values), hall = hall_interval(values);
  EXPECT_GT(hall.high, student.high);
  EXPECT_GT(hall.low, student.low);
}

TEST(Multiple, HolmAndBenjaminiHochberg) {
  const std::vector<double> p = {0.01, 0.04, 0.03};
  const std::vector<double> family = holm(p), rate = benjamini_hochberg(p);
  EXPECT_NEAR(family[0], 0.03, 1e-15);
  EXPECT_NEAR(family[1], 0.06, 1e-15);
  EXPECT_NEAR(family[2], 0.06, 1e-15);
  EXPECT_NEAR(rate[0], 0.03, 1e-15);
  EXPECT_NEAR(rate[1], 0.04, 1e-15);
  EXPECT_NEAR(rate[2], 0.04, 1e-15);
}

TEST(Random, IsAFunctionOfItsSeed) {
  Random one(7), same(7), other(8);
  bool differs = false;
  double sum = 0.0;
  for (int i = 0; i < 10'000; ++i) {
    const uint32_t word = one.word();
    EXPECT_EQ(word, same.word());
    differs |= word != other.word();
    sum += Random(static_cast<uint64_t>(i)).uniform();
    EXPECT_LT(one.below(5), 5u);
    same.below(5);
  }
  EXPECT_TRUE(differs);
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(TwoSample, DistanceOfKnownCounts) {
  // a: 0 0 1, b: 1 1 1: within a 1/3, within b 1, across 1/3.
  EXPECT_NEAR(squared_distance({1, {0, 0, 1}, {1, 1, 1}, 0}), 1.0 / 3 + 1 - 2.0 / 3, 1e-12);
  // Partners do not count across: (0,1), (0,1), (1,1) leaves 2 + 0 of 6 agreeing pairs.
  EXPECT_NEAR(squared_distance({1, {0, 0, 1}, {1, 1, 1}, 3}), 1.0 / 3 + 1 - 2 * 2.0 / 6, 1e-12);
  // Two positions: the mean of both; the second is the same on both sides.
  EXPECT_NEAR(squared_distance({2, {0, 5, 0, 5, 1, 5}, {1, 5, 1, 5, 1, 5}, 0}), 0.5 * (1.0 / 3 + 1 - 2.0 / 3), 1e-12);
}

TEST(TwoSample, PermutationsFindOtherTokens) {
  std::vector<TwoSamples> same, other;
  for (int prompt = 0; prompt < 5; ++prompt) {
    TwoSamples samples;
    for (int i = 0; i < 20; ++i) samples.a.push_back(i % 4), samples.b.push_back((i + prompt) % 4);
    same.push_back(samples);
    for (int32_t& token : samples.b) token = token == 3 ? 0 : token;
    other.push_back(samples);
  }
  EXPECT_GT(permutation_test(same, 1), 0.5);
  EXPECT_LT(permutation_test(other, 1), 0.05);
  EXPECT_EQ(permutation_test(other, 1), permutation_test(other, 1));
}

TEST(Verdicts, AnIntervalNoWiderThanTheMarginDecides) {
  EXPECT_EQ(judge_signed({0.0, -0.009, 0.009}, 0.01), Verdict::kHolds);
  EXPECT_EQ(judge_signed({0.01, 0.001, 0.019}, 0.01), Verdict::kDiffers);
  EXPECT_EQ(judge_signed({-0.01, -0.019, -0.001}, 0.01), Verdict::kDiffers);
  EXPECT_EQ(judge_signed({0.0, -0.02, 0.02}, 0.01), Verdict::kUndecided);
  EXPECT_EQ(judge_signed({0.005, 0.001, 0.009}, 0.01), Verdict::kHolds);  // there, but within the margin
  EXPECT_EQ(judge_distance({0.01, 0.005, 0.02}, 0.01), Verdict::kUndecided);
  EXPECT_EQ(judge_distance({0.03, 0.02, 0.04}, 0.01), Verdict::kDiffers);
  EXPECT_NEAR(static_cast<double>(needed_units(100, 0.04, 0.02)), 440.0, 1.0);
  EXPECT_EQ(needed_units(100, 0.01, 0.02), 101);
}

}  // namespace
}  // namespace eadem::audit::statistics
