// Embeddings in the engine: the same bits in whatever pieces and company the prompt is computed, every row added once.
#include <gtest/gtest.h>

#include <random>

#include "engine/engine.h"
#include "support/fake_run.h"

namespace eadem::engine {
namespace {

using testing::Answers;
using testing::digests;
using testing::FakeModel;
using testing::FakeOptions;
using testing::options;
using testing::Ran;
using testing::run;
using testing::run_all;

SequenceRequest ask(uint32_t seed, int prompt, Pooling pooling) {
  std::mt19937 rng(seed);
  SequenceRequest r;
  r.prompt.resize(static_cast<size_t>(prompt));
  for (int32_t& token : r.prompt) token = static_cast<int32_t>(rng() % 100);
  r.pooling = pooling;
  r.kv_hash = true;
  r.sampling.max_tokens = 60;  // where an answer is wanted: it grows while the others are read
  r.sampling.temperature = 0;
  return r;
}

// Answers and embeddings by turns; prompts from 1 token to more than 4 KV blocks.
std::vector<SequenceRequest> requests() {
  std::vector<SequenceRequest> all;
  for (uint32_t i = 0; i < 10; ++i) {
    const Pooling pooling = i % 3 == 0 ? Pooling::kNone : i % 3 == 1 ? Pooling::kMean : Pooling::kLast;
    all.push_back(ask(i + 1, 1 + 31 * static_cast<int>(i), pooling));
  }
  return all;
}

TEST(Pooling, OneVectorOfLengthOneAndNoToken) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    const Ran one = run(options(1, 512, 64, false), {ask(5, 200, pooling)});
    const auto& answer = *one.answers[0];
    EXPECT_EQ(answer.outcome.error, "");
    EXPECT_TRUE(answer.tokens.empty() && answer.prompt.empty());
    ASSERT_EQ(answer.outcome.embedding.size(), 8u);
    double square = 0;
    for (const float x : answer.outcome.embedding) square += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(square, 1.0, 1e-6);
    EXPECT_EQ(one.counters.rows, 200u);
  }
}

TEST(Pooling, DoesNotDependOnHowTheWorkIsCut) {
  const auto asked = requests();
  const auto expected = digests(run(options(1, 512, 64, false), asked).answers);
  const Ran together = run(options(10, 512, 64, false), asked);
  EXPECT_EQ(digests(together.answers), expected);
  EXPECT_GT(together.counters.mixed_steps, 0u);
  Options overlapped = options(4, 30, 64, false);
  overlapped.async_scheduling = true;
  EXPECT_EQ(digests(run(overlapped, asked).answers), expected);
  for (const int chunk : {1, 7, 64}) {
    const Ran chunked = run(options(4, chunk, 64, false), asked);
    EXPECT_EQ(digests(chunked.answers), expected) << chunk;
    EXPECT_GT(chunked.counters.chunked_prompts, 2u);
  }
}

// Answers that grow take the blocks of embeddings under way; a row that was added before is not added again.
TEST(Pooling, SurvivesPreemption) {
  std::vector<SequenceRequest> asked;
  for (uint32_t i = 0; i < 3; ++i) asked.push_back(ask(60 + i, 10, Pooling::kNone));
  for (auto& r : asked) r.sampling.max_tokens = 120;
  for (uint32_t i = 0; i < 3; ++i) asked.push_back(ask(70 + i, 250, i == 1 ? Pooling::kLast : Pooling::kMean));
  const auto expected = digests(run(options(1, 512, 64, false), asked).answers);
  for (const bool prefix : {false, true}) {
    const Ran tight = run(options(6, 6, 8, prefix), asked);
    EXPECT_EQ(digests(tight.answers), expected);
    EXPECT_GT(tight.counters.preemptions, 0u);
    EXPECT_GT(tight.counters.recomputed_tokens, 0u);
  }
}

// Cached keys and values say nothing of a hidden state: a mean computes every row, a last state no more than its block.
TEST(Pooling, ThePrefixCacheSkipsNoRowThatIsPooled) {
  const std::vector<SequenceRequest> asked = {ask(9, 200, Pooling::kNone), ask(9, 200, Pooling::kMean),
                                              ask(9, 200, Pooling::kLast)};
  const auto expected = digests(run(options(1, 512, 64, false), asked).answers);
  FakeModel model({});
  auto engine = Engine::create(model, options(1, 64, 64, true)).value();
  Answers warm = run_all(*engine, asked);
  EXPECT_EQ(digests(warm), expected);
  EXPECT_EQ(warm[1]->outcome.cached_tokens, 0);
  EXPECT_EQ(warm[2]->outcome.cached_tokens, 192);
  EXPECT_EQ(engine->counters().prefix_hit_tokens, 192u);
}

TEST(Pooling, TheComparisonFailsForAModelThatKnowsItsBatch) {
  FakeOptions fake;
  fake.batch_dependent = true;
  const std::vector<SequenceRequest> asked = {ask(1, 100, Pooling::kMean), ask(2, 100, Pooling::kLast)};
  for (auto r : asked) {
    r.kv_hash = false;  // the embedding itself must show it
    const auto alone = digests(run(options(1, 1, 64, false), {r}, fake).answers);
    EXPECT_NE(digests(run(options(1, 100, 64, false), {r}, fake).answers), alone);
  }
}

TEST(Pooling, WhatCannotBeIsRefusedOrFails) {
  const auto error_of = [](const Ran& ran) { return ran.answers[0]->outcome.error; };
  EXPECT_NE(error_of(run(options(1, 512, 64, false), {ask(1, 0, Pooling::kMean)})).find("prompt_token_ids"),
            std::string::npos);
  EXPECT_NE(error_of(run(options(1, 512, 2, false), {ask(1, 129, Pooling::kMean)})).find("KV blocks"),
            std::string::npos);
  EXPECT_EQ(error_of(run(options(1, 512, 2, false), {ask(1, 128, Pooling::kMean)})), "");
  FakeOptions fake;
  fake.context = 256;
  EXPECT_NE(error_of(run(options(1, 512, 64, false), {ask(1, 257, Pooling::kMean)}, fake)).find("max_model_len"),
            std::string::npos);
  EXPECT_EQ(error_of(run(options(1, 512, 64, false), {ask(1, 256, Pooling::kMean)}, fake)), "");
  fake.poison = ask(1, 40, Pooling::kMean).prompt[20];
  const Ran bad = run(options(1, 16, 64, false), {ask(1, 40, Pooling::kMean)}, fake);
  EXPECT_NE(error_of(bad).find("position"), std::string::npos);
  EXPECT_TRUE(bad.answers[0]->outcome.embedding.empty());
}

}  // namespace
}  // namespace eadem::engine
