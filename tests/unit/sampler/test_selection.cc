// Prefixes of the total order, the exact size of a nucleus, and the check of a request's fields.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "numerics/sampling.h"
#include "sampler/sampler.h"
#include "sampler/selection.h"
#include "unit/sampler/literal_sampler.h"

namespace eadem::sampler {
namespace {

TEST(NucleusSize, IsTheExactCeiling) {
  std::mt19937_64 rng(11);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t total = (rng() >> 2) >> (rng() % 62);
    const int exponent = rng() % 2 ? -static_cast<int>(rng() % 150) : 0;
    float p = std::ldexp(static_cast<float>(rng() >> 40) * 0x1p-24f, exponent);
    if (p <= 0.0f) p = 0x1p-149f;
    ASSERT_EQ(numerics::top_p_threshold(p, total), testing::literal_needed(p, total)) << p << " " << total;
  }
  EXPECT_EQ(numerics::top_p_threshold(1.0f, 12345), 12345u);
  EXPECT_EQ(numerics::top_p_threshold(0.5f, 3), 2u);
  EXPECT_EQ(numerics::top_p_threshold(0.5f, 4), 2u);
  EXPECT_EQ(numerics::top_p_threshold(0x1p-149f, 1), 1u);
  EXPECT_EQ(numerics::top_p_threshold(0x1p-149f, 0), 0u);
  // Double rounding would lose this one: 0.1f is a little more than a tenth.
  EXPECT_EQ(numerics::top_p_threshold(0.1f, uint64_t{10} << 50), testing::literal_needed(0.1f, uint64_t{10} << 50));
}

TEST(Weight, IsZeroBelowTheBound) {
  for (float x = numerics::kWeightless; x > -120.0f; x -= 0.001f) ASSERT_EQ(numerics::nucleus_weight(x, 0.0f), 0u) << x;
  EXPECT_EQ(numerics::nucleus_weight(0.0f, 0.0f), 0x80000000u);
  EXPECT_EQ(numerics::nucleus_weight(-INFINITY, 0.0f), 0u);
}

TEST(Selection, PrefixesEqualASort) {
  std::mt19937 rng(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> l(1 + rng() % 2000);
    for (float& x : l) x = static_cast<float>(static_cast<int>(rng() % 300)) * (round % 3 ? 0.5f : 0.01f);
    const std::vector<int32_t> order = testing::total_order(l);
    const int k = 1 + static_cast<int>(rng() % l.size());
    std::vector<Candidate> first;
    first_k(l, k, first);
    sort_candidates(first);
    ASSERT_EQ(first.size(), static_cast<size_t>(k));
    for (int i = 0; i < k; ++i) ASSERT_EQ(first[i].token, order[i]);

    std::vector<Candidate> heavy;
    for (size_t t = 0; t < l.size(); ++t) {
      heavy.push_back({l[t], static_cast<int32_t>(t), static_cast<uint32_t>(rng() % 1000)});
    }
    uint64_t total = 0;
    for (const Candidate& c : heavy) total += c.weight;
    const uint64_t needed = 1 + rng() % (total + 1);
    std::vector<uint32_t> weight_of(l.size());
    for (const Candidate& c : heavy) weight_of[c.token] = c.weight;
    const bool enough = keep_weight(heavy, needed);
    ASSERT_EQ(enough, total >= needed);
    if (!enough) continue;
    size_t count = 0;
    for (uint64_t sum = 0; sum < needed; ++count) sum += weight_of[order[count]];
    ASSERT_EQ(heavy.size(), count);
    sort_candidates(heavy);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(heavy[i].token, order[i]);
  }
}

// Where a prefix of top-p ends, told from a few sums over the whole row and a look at the tokens near it.
TEST(Selection, TheCutIsTheLastOfTheShortestPrefix) {
  const kernels::KernelSet& set = kernels::best_kernel_set();
  std::mt19937 rng(8);
  for (int round = 0; round < 120; ++round) {
    std::vector<float> l(round % 3 == 0 ? 1 + rng() % 500 : 4000 + rng() % 9000);
    std::normal_distribution<float> normal(0.0f, round % 4 == 0 ? 0.01f : round % 4 == 1 ? 8.0f : 2.0f);
    for (float& x : l) x = normal(rng);
    for (float& x : l) x = round % 5 == 2 ? std::round(x) : x;  // ties
    const float max = *std::max_element(l.begin(), l.end());
    std::vector<float> weights(l.size());
    const uint64_t total = set.top_p_weights(l.data(), static_cast<int>(l.size()), max, weights.data());
    const float p = round % 6 == 5 ? 1e-6f : static_cast<float>(rng() % 1000 + 1) * 0.001f;
    const uint64_t needed = numerics::top_p_threshold(p, total);
    std::vector<Candidate> scratch;
    const Cut cut = cut_of_weight(set, l, weights.data(), total, needed, scratch);
    const std::vector<int32_t> order = testing::total_order(l);
    size_t count = 0;
    for (uint64_t sum = 0; sum < needed; ++count) sum += static_cast<uint64_t>(weights[order[count]]);
    ASSERT_EQ(cut.token, order[count - 1]) << round;
    for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(cut.keeps(l[order[i]], order[i]), i < count) << round;
  }
}

std::string fault(const SamplingParams& p) {
  const Result<void> checked = check_params(p, 100);
  return checked.ok() ? "" : checked.error().message;
}

TEST(CheckParams, NamesTheField) {
  EXPECT_EQ(fault({}), "");
  const auto expect = [](const char* field, const auto& change) {
    SamplingParams p;
    change(p);
    EXPECT_NE(fault(p).find(field), std::string::npos) << field << ": '" << fault(p) << "'";
  };
  expect("temperature", [](auto& p) { p.temperature = -1; });
  expect("temperature", [](auto& p) { p.temperature = 1e-6f; });
  expect("temperature", [](auto& p) { p.temperature = NAN; });
  expect("top_p", [](auto& p) { p.top_p = 0; });
  expect("top_p", [](auto& p) { p.top_p = 1.5f; });
  expect("top_p", [](auto& p) { p.top_p = NAN; });
  expect("top_k", [](auto& p) { p.top_k = -2; });
  expect("min_p", [](auto& p) { p.min_p = -0.1f; });
  expect("min_p", [](auto& p) { p.min_p = NAN; });
  expect("repetition_penalty", [](auto& p) { p.repetition_penalty = 0; });
  expect("repetition_penalty", [](auto& p) { p.repetition_penalty = INFINITY; });
  expect("presence_penalty", [](auto& p) { p.presence_penalty = 3; });
  expect("frequency_penalty", [](auto& p) { p.frequency_penalty = -3; });
  expect("logit_bias", [](auto& p) { p.logit_bias = {{100, 1.0f}}; });
  expect("logit_bias", [](auto& p) { p.logit_bias = {{5, 101.0f}}; });
  expect("logit_bias", [](auto& p) { p.logit_bias = {{5, 1.0f}, {5, 2.0f}}; });
  expect("max_tokens", [](auto& p) { p.max_tokens = 0; });
  expect("max_tokens", [](auto& p) { p.max_tokens = -1; });
  expect("min_tokens", [](auto& p) { p.min_tokens = 17; });
  expect("stop_token_ids", [](auto& p) { p.stop_token_ids = {-1}; });
  expect("logprobs", [](auto& p) { p.logprobs = 101; });
  expect("prompt_logprobs", [](auto& p) { p.prompt_logprobs = -2; });
  expect("golden_token_ids", [](auto& p) { p.golden_token_ids = {100}; });
  expect("golden_token_ids", [](auto& p) { p.golden_token_ids = std::vector<int32_t>(17, 1); });
  expect("stop", [](auto& p) { p.stop = {""}; });
  expect("n ", [](auto& p) { p.n = 0; });
  SamplingParams score;
  score.max_tokens = 0;
  score.prompt_logprobs = 0;
  EXPECT_EQ(fault(score), "");
}

}  // namespace
}  // namespace eadem::sampler
