// Asynchronous scheduling: a step runs while the one before is told. The same bytes, in the same order for each
// listener, and counters that tell the two apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/fake_model.h"

namespace eadem::engine {
namespace {

using testing::Answer;
using testing::Answers;
using testing::digest;
using testing::digests;
using testing::drawn_request;
using testing::FakeModel;
using testing::FakeOptions;

std::vector<SequenceRequest> mixed_requests() {
  std::vector<SequenceRequest> all;
  for (int i = 0; i < 10; ++i) all.push_back(drawn_request(static_cast<uint32_t>(i) + 1, 1 + 37 * i, 6 + i * 5 % 13));
  all[2].sampling.repetition_penalty = 1.4f;
  all[3].sampling.frequency_penalty = 0.6f;
  all[4].sampling.prompt_logprobs = 1;
  all[5].sampling.temperature = 0;
  all[6].sampling.golden_token_ids = drawn_request(77, 6, 1).prompt;
  all[7].sampling.prompt_logprobs = 0;
  all[7].sampling.max_tokens = 0;
  all[8].kv_hash = false;
  return all;
}

struct Ran {
  std::vector<std::string> digests;
  Counters counters;
};

// Listeners of every third request end it themselves after three tokens, as a stop string would.
Ran run(Options o, bool async, const FakeOptions& fake = {}) {
  o.async_scheduling = async;
  FakeModel model(fake);
  auto engine = Engine::create(model, o).value();
  Answers answers;
  const auto requests = mixed_requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    answers.push_back(std::make_unique<Answer>());
    if (i % 3 == 0) answers.back()->stop_after = 3;
    EXPECT_TRUE(engine->submit(requests[i], answers.back().get()).ok());
  }
  while (engine->step()) {
  }
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  for (const auto& answer : answers) EXPECT_TRUE(answer->finished);
  return {digests(answers), engine->counters()};
}

Options options(int max_batch, int chunk, int blocks) {
  Options o;
  o.max_batch = max_batch;
  o.prefill_chunk = chunk;
  o.kv_blocks = blocks;
  return o;
}

TEST(Async, TheSameBytesAsWithout) {
  const Ran plain = run(options(1, 512, 64), false);
  EXPECT_EQ(plain.counters.overlapped_steps, 0u);
  EXPECT_EQ(plain.counters.discarded_rows + plain.counters.prepared_blocks, 0u);
  for (const int batch : {1, 3, 10}) {
    for (const int chunk : {1, 64, 512}) {
      for (const int blocks : {7, 64}) {
        for (const int preempt : {0, 2}) {
          Options o = options(batch, chunk, blocks);
          o.force_preempt = preempt;
          FakeOptions fake;
          fake.threads = 2;
          const Ran async = run(o, true, fake);
          EXPECT_EQ(async.digests, plain.digests) << batch << " " << chunk << " " << blocks << " " << preempt;
          EXPECT_GT(async.counters.overlapped_steps, 10u);
          EXPECT_GT(async.counters.prepared_blocks, 0u);
          EXPECT_GT(async.counters.discarded_rows, 0u) << "listeners ended sequences whose next row was under way";
          if (preempt > 0) {
            EXPECT_GT(async.counters.preemptions, 8u);
          }
        }
      }
    }
  }
}

TEST(Async, TheComparisonFailsForAModelThatKnowsItsBatch) {
  FakeOptions fake;
  fake.batch_dependent = true;
  EXPECT_NE(run(options(10, 64, 64), true, fake).digests, run(options(1, 512, 64), false, fake).digests);
}

TEST(Async, AStepIsUnderWayWhileTheOneBeforeIsTold) {
  struct Watching final : Listener {
    Engine* engine = nullptr;
    std::vector<uint64_t> steps;  // launched when each token was told
    int ends = 0;
    void on_prompt(std::vector<SampledToken>) override {}
    bool on_token(const SampledToken&, bool) override {
      steps.push_back(engine->counters().steps);
      return true;
    }
    void on_finish(const Outcome&) override { ++ends; }
  };
  for (const bool async : {false, true}) {
    FakeModel model({});
    Options o = options(2, 512, 64);
    o.async_scheduling = async;
    auto engine = Engine::create(model, o).value();
    Watching watching;
    watching.engine = engine.get();
    ASSERT_TRUE(engine->submit(drawn_request(1, 20, 5), &watching).ok());
    while (engine->step()) {
    }
    const std::vector<uint64_t> expected =
        async ? std::vector<uint64_t>{2, 3, 4, 5, 5} : std::vector<uint64_t>{1, 2, 3, 4, 5};
    EXPECT_EQ(watching.steps, expected);
    EXPECT_EQ(watching.ends, 1);
  }
}

TEST(Async, CancelledAndLateSequencesFreeTheirBlocksAtTheNextStep) {
  for (const bool async : {false, true}) {
    FakeModel model({});
    Options o = options(3, 512, 64);
    o.mixed_chunk = 1 << 16;
    o.async_scheduling = async;
    auto engine = Engine::create(model, o).value();
    Answer kept, cancelled, late, waiting;
    ASSERT_TRUE(engine->submit(drawn_request(1, 60, 30), &kept).ok());
    const SequenceId id = engine->submit(drawn_request(2, 600, 300), &cancelled).value();
    SequenceRequest timed = drawn_request(3, 600, 300);
    timed.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
    ASSERT_TRUE(engine->submit(timed, &late).ok());
    SequenceRequest expired = drawn_request(4, 10, 5);
    expired.deadline = std::chrono::steady_clock::now();
    ASSERT_TRUE(engine->submit(expired, &waiting).ok());
    for (int i = 0; i < 8; ++i) engine->step();
    EXPECT_EQ(waiting.outcome.reason, FinishReason::kTimeout);
    EXPECT_TRUE(waiting.tokens.empty());
    EXPECT_GT(engine->load().kv_blocks_used, 18);
    const size_t seen = cancelled.tokens.size();
    engine->cancel(id);
    engine->step();
    EXPECT_TRUE(cancelled.finished);
    EXPECT_EQ(cancelled.outcome.reason, FinishReason::kCancelled);
    EXPECT_LE(cancelled.tokens.size(), seen + 1);
    EXPECT_LT(engine->load().kv_blocks_used, 14);
    while (engine->step()) {
    }
    EXPECT_EQ(late.outcome.reason, FinishReason::kLength);
    EXPECT_EQ(engine->counters().timed_out, 1u);
    EXPECT_EQ(engine->counters().cancelled, 1u);
    EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  }
}

// A step that is held up: what is cancelled meanwhile ends before it is done, and its blocks serve others afterwards.
TEST(Async, WhatIsCancelledEndsWhileAStepIsUnderWay) {
  const auto alone = [](const SequenceRequest& request) {
    FakeModel model({});
    auto engine = Engine::create(model, options(1, 512, 64)).value();
    Answers answers;
    answers.push_back(std::make_unique<Answer>());
    EXPECT_TRUE(engine->submit(request, answers.back().get()).ok());
    while (engine->step()) {
    }
    return digests(answers).front();
  };
  std::promise<void> go_on;
  std::atomic<bool> hold = false;
  FakeOptions fake;
  fake.before_rows = [&, held = go_on.get_future().share()] {
    if (hold) held.wait();
  };
  FakeModel model(fake);
  Options o = options(2, 512, 21);
  o.async_scheduling = true;
  o.mixed_chunk = 1 << 16;
  auto engine = Engine::create(model, o).value();
  Answers kept;
  for (int i = 0; i < 2; ++i) kept.push_back(std::make_unique<Answer>());
  Answer cancelled;
  const SequenceId id = engine->submit(drawn_request(2, 900, 300), &cancelled).value();
  ASSERT_TRUE(engine->submit(drawn_request(1, 60, 30), kept[0].get()).ok());
  for (int i = 0; i < 5; ++i) engine->step();
  EXPECT_TRUE(engine->wait());
  hold = true;
  engine->step();  // launches one that does not end
  const int used = engine->load().kv_blocks_used;
  EXPECT_GE(used, 16);
  engine->cancel(id);
  engine->wake();
  EXPECT_FALSE(engine->wait());
  engine->settle();
  EXPECT_EQ(cancelled.outcome.reason, FinishReason::kCancelled);
  EXPECT_TRUE(cancelled.finished);
  EXPECT_LE(engine->load().kv_blocks_used, used - 15);
  // It needs blocks that the held step still writes to.
  ASSERT_TRUE(engine->submit(drawn_request(3, 1000, 20), kept[1].get()).ok());
  hold = false;
  go_on.set_value();
  EXPECT_TRUE(engine->wait());
  while (engine->step()) {
  }
  EXPECT_EQ(digests(kept),
            (std::vector<std::string>{alone(drawn_request(1, 60, 30)), alone(drawn_request(3, 1000, 20))}));
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  EXPECT_GT(engine->counters().discarded_rows, 0u);
}

TEST(Async, AnEngineMayEndWithAStepUnderWay) {
  FakeModel model({});
  Options o = options(2, 512, 64);
  o.async_scheduling = true;
  Answer answer;
  auto engine = Engine::create(model, o).value();
  ASSERT_TRUE(engine->submit(drawn_request(1, 300, 50), &answer).ok());
  for (int i = 0; i < 3; ++i) engine->step();
  engine.reset();
  EXPECT_FALSE(answer.finished);
}

}  // namespace
}  // namespace eadem::engine
