// The sampler against its literal definition: tokens and the bits of every logprob.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "sampler/race.h"
#include "sampler/sampler.h"
#include "support/plain_kernels.h"
#include "unit/sampler/literal_sampler.h"

namespace eadem::sampler {
namespace {

using testing::literal_draw;
using testing::plain_kernels;

uint32_t bits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return x != x ? 0x7fc00000u : u;
}

::testing::AssertionResult same(const SampledToken& a, const SampledToken& b) {
  if (a.token != b.token) return ::testing::AssertionFailure() << "token " << a.token << " and " << b.token;
  if (bits(a.logprob) != bits(b.logprob)) return ::testing::AssertionFailure() << a.logprob << " and " << b.logprob;
  if (a.top.size() != b.top.size()) {
    return ::testing::AssertionFailure() << a.top.size() << " and " << b.top.size() << " tops";
  }
  for (size_t i = 0; i < a.top.size(); ++i) {
    if (a.top[i].token != b.top[i].token || bits(a.top[i].logprob) != bits(b.top[i].logprob)) {
      return ::testing::AssertionFailure() << "top " << i << ": " << a.top[i].token << " " << a.top[i].logprob
                                           << " and " << b.top[i].token << " " << b.top[i].logprob;
    }
  }
  return ::testing::AssertionSuccess();
}

// Rows of every kind: smooth, peaked, flat, with ties, with tokens that cannot be drawn, with both zeros.
std::vector<float> random_logits(std::mt19937& rng, int vocab, int kind) {
  std::normal_distribution<float> normal(0.0f, kind == 1 ? 12.0f : kind == 2 ? 0.01f : 3.0f);
  std::vector<float> l(static_cast<size_t>(vocab));
  for (float& x : l) {
    x = normal(rng);
    if (kind == 3) x = std::round(x);  // many ties, -0 among them
    if (kind == 4 && rng() % 3 == 0) x = -INFINITY;
    if (kind == 5) x = x * 1e4f;
    if (kind == 6) x = 1.5f;
    if (kind == 7) x = x * 0.01f + 3e7f;  // neighbouring floats far from zero
  }
  return l;
}

template <class T>
const T& one_of(std::mt19937& rng, const std::vector<T>& values) {
  return values[rng() % values.size()];
}

SamplingParams random_params(std::mt19937& rng, int vocab) {
  SamplingParams p;
  p.temperature = one_of<float>(rng, {0.0f, 1.0f, 0.8f, 0.01f, 3.0f, 1e-5f, 1.3f});
  p.top_k = one_of<int>(rng, {0, 0, -1, 1, 2, 5, 50, vocab, vocab - 1});
  p.top_p = one_of<float>(rng, {1.0f, 1.0f, 0.95f, 0.5f, 0.1f, 1e-6f, 1e-40f, 0.9999999f, 0.999f});
  p.min_p = one_of<float>(rng, {0.0f, 0.0f, 0.05f, 1.0f, 1e-8f, 1e-40f, 0.5f});
  p.repetition_penalty = one_of<float>(rng, {1.0f, 1.0f, 1.3f, 0.7f});
  p.frequency_penalty = one_of<float>(rng, {0.0f, 0.0f, 0.5f, -2.0f, 1.1f});
  p.presence_penalty = one_of<float>(rng, {0.0f, 0.0f, 0.7f, -1.5f});
  std::set<int32_t> biased;
  for (int i = 0; i < static_cast<int>(rng() % 4); ++i) biased.insert(static_cast<int32_t>(rng() % vocab));
  for (int32_t t : biased) p.logit_bias.emplace_back(t, one_of<float>(rng, {-100.0f, 100.0f, 0.3f, -4.0f, 2.5f}));
  return p;
}

struct Case {
  std::vector<float> logits;
  SamplingParams params;
  TokenCounts counts;
  std::vector<int32_t> masked;
  Draw draw;
};

void fill(std::mt19937& rng, int vocab, int kind, Case& c) {
  c.logits = random_logits(rng, vocab, kind);
  c.params = random_params(rng, vocab);
  std::vector<int32_t> prompt(rng() % 40);
  for (int32_t& t : prompt) t = static_cast<int32_t>(rng() % vocab);
  c.counts.add_prompt(prompt);
  std::vector<int32_t> output(rng() % 20);
  for (int32_t& t : output) t = static_cast<int32_t>(rng() % (vocab / 2 + 1));
  for (const int32_t t : output) c.counts.add_output(t);
  if (rng() % 3 == 0) c.masked = {static_cast<int32_t>(rng() % vocab)};
  c.draw.logits = c.logits.data();
  c.draw.params = &c.params;
  c.draw.seed = (uint64_t{rng()} << 32) | rng();
  c.draw.position = static_cast<int64_t>(rng() % 100000);
  c.draw.counts = needs_counts(c.params) ? &c.counts : nullptr;
  c.draw.masked = c.masked;
  c.draw.forced = rng() % 4 == 0 ? static_cast<int32_t>(rng() % vocab) : -1;
  c.draw.logprobs = one_of<int>(rng, {-1, 0, 1, 5, 20, vocab});
  c.draw.processed = rng() % 2 == 0;
}

// The sampler over the plain kernels and over each set that this machine runs.
std::vector<Sampler> samplers(int vocab) {
  std::vector<Sampler> all;
  all.emplace_back(plain_kernels(), vocab);
  for (const kernels::KernelSet* set : kernels::all_kernel_sets()) {
    if (set->supported()) all.emplace_back(*set, vocab);
  }
  return all;
}

class AgainstLiteral : public ::testing::TestWithParam<int> {};

TEST_P(AgainstLiteral, SameTokensAndBits) {
  const int vocab = GetParam();
  std::vector<Sampler> fast = samplers(vocab);
  ASSERT_GE(fast.size(), 2u);
  std::mt19937 rng(static_cast<uint32_t>(vocab));
  const int rounds = vocab > 50000 ? 32 : vocab > 5000 ? 80 : vocab > 500 ? 400 : 3000;
  std::set<int32_t> tokens;
  for (int round = 0; round < rounds; ++round) {
    Case c;
    fill(rng, vocab, round % 8, c);
    if (vocab > 5000) c.draw.logprobs = std::min(c.draw.logprobs, 20), c.params.top_k = std::min(c.params.top_k, 300);
    const std::vector<float> l = testing::literal_step1(c.draw, vocab);
    const Result<SampledToken> got = fast[static_cast<size_t>(round / 8) % fast.size()].draw(c.draw);
    if (!(*std::max_element(l.begin(), l.end()) > -INFINITY)) {
      EXPECT_TRUE(!got.ok() || c.draw.forced >= 0);
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_TRUE(same(got.value(), literal_draw(c.draw, vocab)))
        << "round " << round << " T " << c.params.temperature << " k " << c.params.top_k << " p " << c.params.top_p
        << " min " << c.params.min_p << " logprobs " << c.draw.logprobs << " processed " << c.draw.processed
        << " forced " << c.draw.forced;
    tokens.insert(got.value().token);
  }
  EXPECT_GT(tokens.size(), static_cast<size_t>(vocab > 8 ? 5 : 0));  // the draws are not all alike
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, AgainstLiteral,
                         ::testing::Values(1, 2, 3, 5, 17, 256, 257, 1000, 20011, 151936));

TEST(Sampler, ComparisonFindsOneWrongBit) {
  // The negative control: one unit in the last place of one logit is seen.
  std::mt19937 rng(7);
  std::vector<float> logits = random_logits(rng, 300, 0);
  SamplingParams params;
  Draw draw;
  draw.logits = logits.data();
  draw.params = &params;
  draw.logprobs = 3;
  Sampler sampler(plain_kernels(), 300);
  const SampledToken before = sampler.draw(draw).value();
  EXPECT_TRUE(same(before, literal_draw(draw, 300)));
  const auto largest = std::max_element(logits.begin(), logits.end());
  *largest = std::nextafter(*largest, 100.0f);
  EXPECT_FALSE(same(before, literal_draw(draw, 300)));
}

TEST(Sampler, SeedPositionAndTokenAreTheWholeKey) {
  const std::vector<float> logits(1000, 0.0f);
  SamplingParams params;
  Draw draw;
  draw.logits = logits.data();
  draw.params = &params;
  Sampler sampler(plain_kernels(), 1000);
  std::set<int32_t> by_seed, by_position;
  for (int i = 0; i < 200; ++i) {
    draw.seed = static_cast<uint64_t>(i), draw.position = 0;
    by_seed.insert(sampler.draw(draw).value().token);
    draw.seed = 5, draw.position = i;
    by_position.insert(sampler.draw(draw).value().token);
  }
  EXPECT_GT(by_seed.size(), 150u);
  EXPECT_GT(by_position.size(), 150u);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  std::vector<float> logits = {1.0f, 0.0f, -1.0f, 2.0f};
  SamplingParams params;
  Draw draw;
  draw.logits = logits.data();
  draw.params = &params;
  Sampler sampler(plain_kernels(), 4);
  int counts[4] = {};
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    draw.position = i;
    ++counts[sampler.draw(draw).value().token];
  }
  double total = 0;
  for (float l : logits) total += std::exp(double{l});
  for (int t = 0; t < 4; ++t) {
    const double p = std::exp(double{logits[t]}) / total;
    EXPECT_NEAR(counts[t] / double{kDraws}, p, 5 * std::sqrt(p * (1 - p) / kDraws));
  }
}

TEST(Sampler, RefusesWhatCannotBeDrawn) {
  Sampler sampler(plain_kernels(), 3);
  SamplingParams params;
  Draw draw;
  draw.params = &params;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int logprobs : {-1, 0}) {
      params.temperature = temperature;
      draw.logprobs = logprobs;
      const float inf = INFINITY;
      for (const std::vector<float>& bad : {std::vector<float>{1, NAN, 0}, {1, inf, 0}, {-inf, -inf, -inf}}) {
        draw.logits = bad.data();
        EXPECT_FALSE(sampler.draw(draw).ok());
      }
      const std::vector<float> good = {1, 2, 0};
      draw.logits = good.data();
      const std::vector<int32_t> all = {0, 1, 2};
      draw.masked = all;
      EXPECT_FALSE(sampler.draw(draw).ok());
      draw.masked = {};
      EXPECT_TRUE(sampler.draw(draw).ok());
    }
  }
}

TEST(Race, WordsThatSurelyLoseDo) {
  std::mt19937 rng(3);
  uint64_t skipped = 0;
  const auto check = [&](float logit, uint32_t word, float best) {
    if (!surely_loses(logit, word, best)) return;
    ++skipped;
    ASSERT_LT(numerics::gumbel_score(logit, word), best) << logit << " " << word << " " << best;
  };
  for (int i = 0; i < 400000; ++i) {
    const float scale = one_of<float>(rng, {1.0f, 30.0f, 1e4f, 1e7f});
    const float logit = (static_cast<float>(rng()) * 0x1p-31f - 1.0f) * scale;
    const float distance = static_cast<float>(rng() % 27000) * 0.001f - 2.5f;
    check(logit, static_cast<uint32_t>(rng()) >> (rng() % 32), logit + distance);
    check(logit, static_cast<uint32_t>(rng()), logit + std::round(distance));
  }
  EXPECT_GT(skipped, 100000u);
}

TEST(Race, TheNoiseOfEveryWordIsInItsBounds) {
  for (uint64_t word = 0; word < (uint64_t{1} << 32); word += (word < 5000 || word > 0xffffe000u) ? 1 : 65521) {
    const float g = numerics::gumbel(numerics::uniform_w(static_cast<uint32_t>(word)));
    ASSERT_GE(g, numerics::kGumbelMin) << word;
    ASSERT_LE(g, numerics::kGumbelMax) << word;
  }
}

}  // namespace
}  // namespace eadem::sampler
