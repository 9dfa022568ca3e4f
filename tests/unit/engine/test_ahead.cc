// On a model that draws, a step is launched while the one before runs: its rows take tokens that nobody here has seen.
// The same bytes, counters that tell the two apart, and the cases in which it must not be done.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>
#include <set>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/fake_guide.h"
#include "support/fake_model.h"

namespace eadem::engine {
namespace {

using testing::Answer;
using testing::Answers;
using testing::digest;
using testing::digests;
using testing::FakeGrammar;
using testing::FakeGuide;
using testing::FakeModel;
using testing::FakeOptions;

SequenceRequest ask(uint32_t seed, int prompt, int max_tokens) {
  SequenceRequest r = testing::drawn_request(seed, prompt, max_tokens);
  r.kv_hash = seed % 2 == 0;
  return r;
}

// All of them drawn by the model. Every other one ends at a token that nobody knows ahead.
std::vector<SequenceRequest> plain_requests() {
  std::vector<SequenceRequest> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(ask(static_cast<uint32_t>(i) + 1, 1 + 31 * i, 8 + i * 5 % 23));
    for (int32_t token = i; i % 2 == 1 && token < 101; token += 9) all.back().sampling.stop_token_ids.push_back(token);
  }
  all[4].sampling.prompt_logprobs = 1;
  all[5].sampling.temperature = 0;
  all[6].sampling.golden_token_ids = ask(77, 6, 1).prompt;
  all[7].sampling.prompt_logprobs = 0;
  all[7].sampling.max_tokens = 0;
  all[8].sampling.max_tokens = 1;
  return all;
}

std::vector<SequenceRequest> mixed_requests() {
  auto all = plain_requests();
  all[2].sampling.repetition_penalty = 1.4f;
  all[3].sampling.min_tokens = 4;
  all[9].sampling.logit_bias = {{3, 2.0f}};
  all[10].pooling = Pooling::kMean;
  all[11].sampling.guide = Guide{};
  all[11].guide = std::make_shared<FakeGuide>(FakeGrammar{});
  return all;
}

Options options(int max_batch, int chunk, int blocks) {
  Options o;
  o.max_batch = max_batch;
  o.prefill_chunk = chunk;
  o.kv_blocks = blocks;
  return o;
}

struct Ran {
  std::vector<std::string> digests;
  Counters counters;
};

// Listeners of every fifth request end it themselves after three tokens, as a stop string would.
Ran run(const Options& o, const std::vector<SequenceRequest>& requests, const FakeOptions& fake) {
  FakeModel model(fake);
  auto engine = Engine::create(model, o).value();
  Answers answers;
  for (size_t i = 0; i < requests.size(); ++i) {
    answers.push_back(std::make_unique<Answer>());
    if (i % 5 == 0) answers.back()->stop_after = 3;
    const auto submitted = engine->submit(requests[i], answers.back().get());
    EXPECT_TRUE(submitted.ok()) << i << ": " << submitted.error().message;
  }
  while (engine->step()) {
  }
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  for (const auto& answer : answers) EXPECT_TRUE(answer->finished);
  return {digests(answers), engine->counters()};
}

Ran run_ahead(Options o, const std::vector<SequenceRequest>& requests, bool ahead = true, bool forgets = false) {
  o.async_scheduling = true;
  o.run_ahead = ahead;
  FakeOptions fake;
  fake.draws = true;
  fake.forgets_draws = forgets;
  return run(o, requests, fake);
}

void expect_the_same_bytes(const std::vector<SequenceRequest>& requests, uint64_t least_ahead) {
  const Ran plain = run(options(1, 512, 64), requests, {});
  EXPECT_EQ(plain.counters.ahead_steps, 0u);
  EXPECT_EQ(std::set<std::string>(plain.digests.begin(), plain.digests.end()).size(), requests.size());
  for (const int batch : {1, 3, 12}) {
    for (const int chunk : {12, 64, 512}) {
      for (const int blocks : {7, 64}) {
        for (const int preempt : {0, 2}) {
          Options o = options(batch, chunk, blocks);
          o.force_preempt = preempt;
          const auto cell = ::testing::Message() << batch << " " << chunk << " " << blocks << " " << preempt;
          const Ran ahead = run_ahead(o, requests);
          EXPECT_EQ(ahead.digests, plain.digests) << cell;
          EXPECT_GT(ahead.counters.ahead_steps, preempt > 0 ? 1 : least_ahead) << cell;
          if (preempt > 0) {
            EXPECT_GT(ahead.counters.preemptions, 8u) << cell;
          } else {
            EXPECT_GT(ahead.counters.discarded_rows, 0u) << cell << ": rows of who had ended in the step before";
          }
          const Ran behind = run_ahead(o, requests, false);
          EXPECT_EQ(behind.digests, plain.digests) << cell;
          EXPECT_EQ(behind.counters.ahead_steps, 0u) << cell;
        }
      }
    }
  }
}

TEST(Ahead, TheSameBytesWhereTheModelDrawsAll) { expect_the_same_bytes(plain_requests(), 20); }

TEST(Ahead, TheSameBytesWhereThisMachineDrawsSome) { expect_the_same_bytes(mixed_requests(), 5); }

TEST(Ahead, AlmostEveryStepIs) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) requests.push_back(ask(i + 1, 100, 40));
  const Ran ahead = run_ahead(options(8, 512, 64), requests);
  EXPECT_GT(ahead.counters.ahead_steps, ahead.counters.steps * 9 / 10);
  EXPECT_EQ(ahead.counters.steps, run_ahead(options(8, 512, 64), requests, false).counters.steps);
}

TEST(Ahead, TheComparisonFailsForAModelThatTakesOtherTokensThanItDrew) {
  const auto requests = plain_requests();
  const Ran plain = run(options(1, 512, 64), requests, {});
  EXPECT_NE(run_ahead(options(12, 512, 64), requests, true, true).digests, plain.digests);
  EXPECT_EQ(run_ahead(options(12, 512, 64), requests, false, true).digests, plain.digests) << "no row takes any";
}

// Whoever needs this machine between two steps is not run ahead of.
TEST(Ahead, NotWhereAStepNeedsThisMachine) {
  std::vector<std::pair<std::string, SequenceRequest>> all;
  for (const char* name : {"penalty", "bias", "processed", "long list", "least tokens", "guide"}) {
    all.emplace_back(name, ask(2, 1, 9));
  }
  all[0].second.sampling.presence_penalty = 0.5f;
  all[1].second.sampling.logit_bias = {{1, -3.0f}};
  all[2].second.sampling.processed_logprobs = true;
  all[3].second.sampling.logprobs = 21;
  all[4].second.sampling.min_tokens = 9;
  all[4].second.sampling.stop_token_ids = {3};
  all[5].second.sampling.guide = Guide{};
  all[5].second.guide = std::make_shared<FakeGuide>(FakeGrammar{});
  for (const auto& [name, request] : all) {
    const Ran plain = run(options(1, 512, 64), {request}, {});
    const Ran drawn = run_ahead(options(1, 512, 64), {request});
    EXPECT_EQ(drawn.digests, plain.digests) << name;
    EXPECT_EQ(drawn.counters.ahead_steps, 0u) << name;
    EXPECT_GT(drawn.counters.steps, 2u) << name;
  }
  EXPECT_GT(run_ahead(options(1, 512, 64), {ask(2, 1, 9)}).counters.ahead_steps, 1u);
}

TEST(Ahead, NotWithSpeculationOrATrace) {
  Options o = options(2, 512, 64);
  o.speculation.kind = SpeculationOptions::Kind::kNgram;
  o.speculation.eager = true;
  const auto requests = plain_requests();
  const Ran plain = run(options(1, 512, 64), requests, {});
  const Ran guessed = run_ahead(o, requests);
  EXPECT_EQ(guessed.digests, plain.digests);
  EXPECT_GT(guessed.counters.drafted_tokens, 0u);
  EXPECT_EQ(guessed.counters.ahead_steps, 0u);
}

// A model whose steps from the one of number `first` on are held up until they are let go.
struct Held {
  std::promise<void> go_on;
  std::unique_ptr<FakeModel> model;
  std::unique_ptr<Engine> engine;

  Held(int batch, int blocks, int first) : model(std::make_unique<FakeModel>(fake(first))) {
    Options o = options(batch, 512, blocks);
    o.async_scheduling = true;
    o.mixed_chunk = 1 << 16;
    engine = Engine::create(*model, o).value();
  }
  FakeOptions fake(int first) {
    FakeOptions fake;
    fake.draws = true;
    fake.before_rows = [first, number = 0, held = go_on.get_future().share()]() mutable {
      if (number++ >= first) held.wait();
    };
    return fake;
  }
  void let_go() { go_on.set_value(); }
};

TEST(Ahead, TheNextStepIsLaunchedWhileOneRuns) {
  Held held(2, 64, 0);
  Answer answer;
  ASSERT_TRUE(held.engine->submit(ask(1, 20, 5), &answer).ok());
  held.engine->step();
  EXPECT_EQ(held.engine->counters().steps, 1u);
  held.engine->wake();
  EXPECT_FALSE(held.engine->wait());
  EXPECT_EQ(held.engine->counters().steps, 2u);
  held.engine->wake();
  EXPECT_FALSE(held.engine->wait());
  EXPECT_EQ(held.engine->counters().steps, 2u) << "two at most";
  EXPECT_TRUE(answer.tokens.empty());
  held.let_go();
  while (held.engine->step()) {
  }
  EXPECT_EQ(answer.tokens.size(), 5u);
  EXPECT_EQ(held.engine->counters().steps, 5u);
}

// What is cancelled ends while two steps are held up; its blocks serve others after both.
TEST(Ahead, WhatIsCancelledEndsWhileStepsAreUnderWay) {
  Held held(2, 21, 5);
  const auto alone = [](const SequenceRequest& request) {
    return run(options(1, 512, 64), {SequenceRequest(ask(9, 5, 5)), request}, {}).digests.back();
  };
  Answers kept;
  for (int i = 0; i < 2; ++i) kept.push_back(std::make_unique<Answer>());
  Answer cancelled;
  Engine& engine = *held.engine;
  const SequenceId id = engine.submit(ask(3, 900, 300), &cancelled).value();
  ASSERT_TRUE(engine.submit(ask(1, 60, 30), kept[0].get()).ok());
  for (int i = 0; i < 6; ++i) engine.step();  // each waits for the step before the one that it launches
  engine.wake();
  EXPECT_FALSE(engine.wait());
  const uint64_t steps = engine.counters().steps;
  EXPECT_EQ(steps, 7u) << "the first that is held, and the one after it";
  const int used = engine.load().kv_blocks_used;
  EXPECT_GE(used, 16);
  engine.cancel(id);
  engine.wake();
  EXPECT_FALSE(engine.wait());
  engine.settle();
  EXPECT_EQ(cancelled.outcome.reason, FinishReason::kCancelled);
  EXPECT_LE(engine.load().kv_blocks_used, used - 15);
  // It needs blocks that the held steps still write to.
  ASSERT_TRUE(engine.submit(ask(3, 1000, 20), kept[1].get()).ok());
  engine.wake();
  EXPECT_FALSE(engine.wait());
  EXPECT_EQ(engine.counters().steps, steps) << "nobody is given these blocks before the steps are done";
  held.let_go();
  while (engine.step()) {
  }
  EXPECT_EQ(digests(kept), (std::vector<std::string>{alone(ask(1, 60, 30)), alone(ask(3, 1000, 20))}));
  EXPECT_EQ(engine.free_blocks(), engine.kv_blocks());
  EXPECT_GT(engine.counters().discarded_rows, 0u);
}

TEST(Ahead, AnEngineMayEndWithStepsUnderWay) {
  Held held(2, 64, std::numeric_limits<int>::max());
  Answer first, second;
  ASSERT_TRUE(held.engine->submit(ask(1, 300, 50), &first).ok());
  for (int i = 0; i < 3; ++i) held.engine->step();
  held.engine->wake();
  held.engine->wait();  // true where the step had ended already: both are launched then
  held.engine = Engine::create(*held.model, options(2, 512, 64)).value();
  EXPECT_FALSE(first.finished);
  ASSERT_TRUE(held.engine->submit(ask(1, 300, 50), &second).ok());
  while (held.engine->step()) {
  }
  EXPECT_EQ(digest(second), run(options(1, 512, 64), {ask(9, 5, 5), ask(1, 300, 50)}, {}).digests.back());
}

}  // namespace
}  // namespace eadem::engine
