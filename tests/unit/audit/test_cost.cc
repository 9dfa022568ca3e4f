#include "audit/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "audit/cost_run.h"
#include "audit/speed.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

PairedRuns runs(int pairs, double increase, bool rate) {
  PairedRuns all{"m", "m", "s", rate, {}, {}};
  for (int i = 0; i < pairs; ++i) {
    const double time = 1.0 + 0.01 * ((i * 7) % 5), other = 1.0 + 0.01 * ((i * 3) % 5);
    all.a.push_back(rate ? 1.0 / (time * (1.0 + increase)) : time * (1.0 + increase));
    all.b.push_back(rate ? 1.0 / other : other);
  }
  return all;
}

TEST(Cost, TimesAndRatesTellTheSameIncrease) {
  const std::vector<PairedRuns> both = {runs(40, 0.25, false), runs(40, 0.25, true)};
  const std::vector<CostMetric> metrics = compare_costs(both, 0.05);
  for (const CostMetric& metric : metrics) {
    EXPECT_EQ(metric.verdict, CostVerdict::kSlower);
    const ordered_json document = to_json(metric);
    EXPECT_NEAR(document["time_increase"]["estimate"].get<double>(), 0.25, 0.01);
    EXPECT_NEAR(document["throughput_ratio"]["estimate"].get<double>(), 0.8, 0.01);
    EXPECT_LE(document["throughput_ratio"]["low"], document["throughput_ratio"]["high"]);
  }
  EXPECT_EQ(overall_verdict(metrics), "slower");
}

TEST(Cost, SamenessMustBeShown) {
  const std::vector<PairedRuns> same = {runs(40, 0.0, false)}, few = {runs(8, 0.5, false)};
  EXPECT_EQ(compare_costs(same, 0.05)[0].verdict, CostVerdict::kSame);
  EXPECT_EQ(compare_costs(same, 0.0005)[0].verdict, CostVerdict::kUndecided);
  EXPECT_GT(*compare_costs(same, 0.0005)[0].needs_pairs, 40);
  EXPECT_EQ(compare_costs(few, 0.05)[0].verdict, CostVerdict::kUndecided);  // whatever they say
  EXPECT_EQ(*compare_costs(few, 0.05)[0].needs_pairs, 16);
}

TEST(Cost, TheOrderOfBlocksIsAFunctionOfTheSeed) {
  EXPECT_EQ(block_order(64, 3), block_order(64, 3));
  EXPECT_NE(block_order(64, 3), block_order(64, 4));
}

TEST(Speed, ARunIsCutAtTheLastFirstToken) {
  RunTimes run;
  run.seconds = {{1.0, 1.5, 2.5, 3.0}, {2.0, 2.5, 3.0, 4.0}};
  const Speeds speeds = speeds_of(run, {2, 100, 4});
  EXPECT_EQ(speeds.first_token, 1.5);
  EXPECT_EQ(speeds.prefill, 100.0);     // 200 tokens until 2.0
  EXPECT_EQ(speeds.decode, 5.0 / 2.0);  // five tokens after 2.0, until 4.0
  EXPECT_EQ(speeds.between_p50, 0.5);
  EXPECT_EQ(speeds.between_p99, 1.0);
}

ordered_json saved(double increase) {
  ordered_json document = {
      {"kind", "cost"},
      {"a", {{"label", "contract"}, {"mode", "contract"}, {"numerics", "int8-v1"}}},
      {"b", {{"label", "free"}, {"mode", "free"}, {"numerics", "int8-free"}}},
      {"machine", {{"cpu", "x"}, {"cores", 2}}},
      {"conditions",
       {{"model", "m"}, {"isa", "avx2"}, {"threads", 2}, {"batch", 4}, {"prompt_tokens", 8}, {"max_tokens", 4}}},
      {"design", {{"pairs", 40}}}};
  document["metrics"] = ordered_json::array();
  for (const char* name : {"ttft", "prefill", "decode", "itl_p50", "itl_p99"}) {
    PairedRuns all = runs(40, increase, false);
    all.name = name;
    document["metrics"].push_back(to_json(compare_costs({&all, 1}, 0.05)[0]));
  }
  return document;
}

TEST(Cost, SavedResultsAreComparedByTheirYardstick) {
  const ordered_json change = compare_saved_costs(saved(0.05), saved(0.26), 0.05).value();
  EXPECT_EQ(change["verdict"], "slower");
  EXPECT_NEAR(change["metrics"][0]["time_increase"]["estimate"].get<double>(), 0.2, 0.01);
  EXPECT_EQ(compare_saved_costs(saved(0.05), saved(0.05), 0.05).value()["verdict"], "same");
  EXPECT_NE(cost_markdown(change).find("time increase"), std::string::npos);
}

TEST(Cost, UnlikeRunsAreRefusedWithAllThatDiffers) {
  ordered_json other = saved(0.05);
  other["conditions"]["threads"] = 8;
  other["machine"]["cpu"] = "y";
  const auto refused = compare_saved_costs(saved(0.05), other, 0.05);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("threads 2 and 8"), std::string::npos);
  EXPECT_NE(refused.error().message.find("machine.cpu"), std::string::npos);
  EXPECT_FALSE(compare_saved_costs(saved(0.05), {{"kind", "diff"}}, 0.05).ok());
  ordered_json torn = saved(0.05);
  torn["metrics"][0]["ratios"] = "x";
  EXPECT_FALSE(compare_saved_costs(saved(0.05), torn, 0.05).ok());
}

}  // namespace
}  // namespace eadem::audit
