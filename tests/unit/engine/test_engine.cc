// The engine on a model whose every logit tells whether a row was computed where it belongs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "engine/engine.h"
#include "support/fake_run.h"

namespace eadem::engine {
namespace {

using testing::Answer;
using testing::Answers;
using testing::digests;
using testing::FakeModel;
using testing::FakeOptions;
using testing::options;
using testing::Ran;
using testing::run;
using testing::run_all;

std::vector<int32_t> random_tokens(uint32_t seed, int n, int vocab = 100) {
  std::mt19937 rng(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng() % static_cast<uint32_t>(vocab));
  return tokens;
}

SequenceRequest ask(uint32_t seed, int prompt, int max_tokens, float temperature = 0.9f) {
  SequenceRequest r;
  r.prompt = random_tokens(seed, prompt);
  r.sampling.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.logprobs = 2;
  r.seed = seed * 7919;
  r.kv_hash = true;
  return r;
}

std::vector<SequenceRequest> mixed_requests() {
  std::vector<SequenceRequest> all;
  for (int i = 0; i < 9; ++i) all.push_back(ask(static_cast<uint32_t>(i) + 1, 1 + 37 * i, 5 + i * 3 % 11));
  all[2].sampling.repetition_penalty = 1.4f;
  all[3].sampling.frequency_penalty = 0.6f;
  all[4].sampling.prompt_logprobs = 1;
  all[5].sampling.temperature = 0;
  all[6].sampling.golden_token_ids = random_tokens(77, 6);
  all[7].sampling.prompt_logprobs = 0;
  all[7].sampling.max_tokens = 0;
  all[8].sampling.presence_penalty = 1.0f;
  return all;
}

TEST(Engine, AnswersDoNotDependOnHowTheWorkIsCut) {
  const auto requests = mixed_requests();
  const Ran alone = run(options(1, 512, 64, false), requests);
  const auto expected = digests(alone.answers);
  EXPECT_EQ(alone.counters.mixed_steps, 0u);

  const Ran together = run(options(9, 512, 64, false), requests);
  EXPECT_EQ(digests(together.answers), expected);
  EXPECT_GT(together.counters.mixed_steps, 0u);
  EXPECT_GT(together.counters.max_sequences, 5u);

  for (const int chunk : {1, 7, 64}) {
    const Ran chunked = run(options(4, chunk, 64, false), requests);
    EXPECT_EQ(digests(chunked.answers), expected) << chunk;
    EXPECT_GT(chunked.counters.chunked_prompts, 2u);
    EXPECT_LE(chunked.counters.max_rows, static_cast<uint64_t>(chunk + 4));
  }

  EXPECT_EQ(digests(run(options(9, 64, 6, false), requests).answers), expected);

  for (const int every : {1, 3}) {
    Options o = options(9, 64, 64, false);
    o.force_preempt = every;
    const Ran preempted = run(o, requests);
    EXPECT_EQ(digests(preempted.answers), expected) << every;
    EXPECT_GT(preempted.counters.preemptions, 8u);
    EXPECT_GT(preempted.counters.recomputed_tokens, 1000u);
  }
}

TEST(Engine, TheYoungestGivesUpItsBlocksWhenTheyRunOut) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 5; ++i) requests.push_back(ask(200 + i, 50 + static_cast<int>(i), 90));
  requests[4].sampling.frequency_penalty = 0.4f;
  requests[3].sampling.prompt_logprobs = 1;
  const auto expected = digests(run(options(1, 512, 64, false), requests).answers);
  for (const bool prefix : {false, true}) {
    const Ran tight = run(options(5, 64, 6, prefix), requests);
    EXPECT_EQ(digests(tight.answers), expected);
    EXPECT_GT(tight.counters.preemptions, 2u);
    EXPECT_GT(tight.counters.recomputed_tokens, 50u);
  }
}

TEST(Engine, TheComparisonFailsForAModelThatKnowsItsBatch) {
  FakeOptions fake;
  fake.batch_dependent = true;
  const auto requests = mixed_requests();
  const auto alone = digests(run(options(1, 512, 64, false), requests, fake).answers);
  EXPECT_NE(digests(run(options(9, 512, 64, false), requests, fake).answers), alone);
  EXPECT_NE(digests(run(options(1, 1, 64, false), requests, fake).answers), alone);
}

TEST(Engine, ThePrefixCacheChangesNothingButTheWork) {
  std::vector<SequenceRequest> requests;
  const std::vector<int32_t> shared = random_tokens(5, 300);
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(ask(100 + i, 1, 6));
    requests.back().prompt.assign(shared.begin(), shared.begin() + 100 + 40 * static_cast<int>(i));
    requests.back().prompt.push_back(static_cast<int32_t>(i));
  }
  requests[3].sampling.prompt_logprobs = 0;
  const auto expected = digests(run(options(1, 512, 64, false), requests).answers);

  FakeModel model({});
  auto engine = Engine::create(model, options(3, 64, 64)).value();
  EXPECT_EQ(digests(run_all(*engine, requests)), expected);
  const uint64_t cold = engine->counters().prefix_hit_tokens;
  EXPECT_GT(cold, 0u);  // partial hits of the shared beginning
  const Answers warm = run_all(*engine, requests);
  EXPECT_EQ(digests(warm), expected);
  EXPECT_EQ(warm[0]->outcome.cached_tokens, 64);
  EXPECT_EQ(warm[5]->outcome.cached_tokens, 256);
  EXPECT_EQ(warm[3]->outcome.cached_tokens, 0);  // its prompt's logprobs are wanted
  EXPECT_GT(engine->counters().prefix_hit_tokens, cold);
  EXPECT_EQ(engine->counters().prefix_evictions, 0u);

  // A pool too small to keep anything for long.
  auto small = Engine::create(model, options(2, 64, 6)).value();
  for (int round = 0; round < 3; ++round) EXPECT_EQ(digests(run_all(*small, requests)), expected);
  EXPECT_GT(small->counters().prefix_evictions, 0u);
  EXPECT_GT(small->counters().prefix_hits, 0u);
}

TEST(Engine, EqualPromptsThatArriveTogetherAreComputedOnce) {
  std::vector<SequenceRequest> requests(4, ask(9, 200, 8));
  for (size_t i = 0; i < requests.size(); ++i) requests[i].seed = 1000 + i;
  const Ran alone = run(options(1, 512, 64, false), requests);
  const Ran shared = run(options(4, 512, 64), requests);
  EXPECT_EQ(digests(shared.answers), digests(alone.answers));
  EXPECT_EQ(shared.counters.prefix_hit_tokens, 3u * 192u);
  EXPECT_LT(shared.counters.rows, alone.counters.rows - 3 * 190);
  EXPECT_NE(shared.answers[0]->ids(), shared.answers[1]->ids());
}

TEST(Engine, ScoringGivesTheLogprobsOfGeneration) {
  SequenceRequest generate = ask(21, 90, 30);
  const Ran generated = run(options(1, 512, 64), {generate});
  const Answer& answer = *generated.answers[0];
  ASSERT_EQ(answer.tokens.size(), 30u);

  SequenceRequest score = generate;
  const std::vector<int32_t> ids = answer.ids();
  score.prompt.insert(score.prompt.end(), ids.begin(), ids.end());
  score.sampling.max_tokens = 0;
  score.sampling.prompt_logprobs = 2;
  SequenceRequest forced = generate;
  forced.sampling.golden_token_ids = ids;
  for (const int chunk : {512, 50, 1}) {
    const Ran judged = run(options(2, chunk, 64), {score, forced});
    const Answer& scored = *judged.answers[0];
    EXPECT_EQ(scored.prompts_told, 1);
    EXPECT_EQ(scored.outcome.reason, FinishReason::kLength);
    EXPECT_EQ(scored.outcome.kv_hash, answer.outcome.kv_hash);
    ASSERT_EQ(scored.prompt.size(), 120u);
    EXPECT_TRUE(std::isnan(scored.prompt[0].logprob));
    Answer tail;
    tail.tokens.assign(scored.prompt.begin() + 90, scored.prompt.end());
    tail.outcome = answer.outcome;
    EXPECT_EQ(digest(tail), digest(answer)) << chunk;
    EXPECT_EQ(digest(*judged.answers[1]), digest(answer)) << chunk;
  }
}

TEST(Engine, ForcedTokensThenFreeOnes) {
  SequenceRequest free = ask(31, 70, 20);
  const Ran alone = run(options(1, 512, 64), {free});
  const Answer& answer = *alone.answers[0];
  SequenceRequest forced = free;
  const std::vector<int32_t> ids = answer.ids();
  forced.sampling.golden_token_ids.assign(ids.begin(), ids.begin() + 11);
  for (const float penalty : {0.0f, 0.9f}) {
    free.sampling.frequency_penalty = forced.sampling.frequency_penalty = penalty;
    SequenceRequest wanted = free;
    const Ran both = run(options(1, 16, 64), {forced, wanted});
    if (penalty == 0.0f) {
      EXPECT_EQ(digest(*both.answers[0]), digest(answer));
    }
    const std::vector<int32_t> first = both.answers[0]->ids();
    EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + 11, first.begin()));
  }
}

TEST(Engine, StopsAtStopTokens) {
  SequenceRequest r = ask(41, 10, 40, 0.0f);
  const std::vector<int32_t> ids = run(options(1, 512, 64), {r}).answers[0]->ids();
  const int32_t stop = ids[12];
  const size_t first = static_cast<size_t>(std::find(ids.begin(), ids.end(), stop) - ids.begin());

  Options with_eos = options(1, 512, 64);
  with_eos.eos = {stop};
  SequenceRequest by_id = r;
  by_id.sampling.stop_token_ids = {stop};
  for (const Ran& stopped : {run(with_eos, {r}), run(options(1, 512, 64), {by_id})}) {
    EXPECT_EQ(stopped.answers[0]->outcome.reason, FinishReason::kStop);
    EXPECT_EQ(stopped.answers[0]->tokens.size(), first + 1);
    EXPECT_TRUE(stopped.answers[0]->last_seen);
  }
  SequenceRequest ignores = r;
  ignores.sampling.ignore_eos = true;
  EXPECT_EQ(run(with_eos, {ignores}).answers[0]->ids(), ids);

  // Masked before min_tokens, so another token is drawn there.
  SequenceRequest later = by_id;
  later.sampling.min_tokens = static_cast<int>(first) + 5;
  const Ran masked = run(options(1, 512, 64), {later});
  EXPECT_GE(masked.answers[0]->tokens.size(), first + 5);
  EXPECT_NE(masked.answers[0]->tokens[first].token, stop);

  // Forced tokens are not judged before the last of them.
  SequenceRequest forced = by_id;
  forced.sampling.golden_token_ids = std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(first) + 3);
  EXPECT_GT(run(options(1, 512, 64), {forced}).answers[0]->tokens.size(), first + 2);
  forced.sampling.golden_token_ids.resize(first + 1);
  const Ran ended = run(options(1, 512, 64), {forced});
  EXPECT_EQ(ended.answers[0]->tokens.size(), first + 1);
  EXPECT_EQ(ended.answers[0]->outcome.reason, FinishReason::kStop);
}

TEST(Engine, TheListenerCanStopASequence) {
  FakeModel model({});
  auto engine = Engine::create(model, options(2, 512, 64)).value();
  SequenceRequest r = ask(51, 100, 40);
  Answer full, stopped;
  stopped.stop_after = 7;
  ASSERT_TRUE(engine->submit(r, &full).ok());
  ASSERT_TRUE(engine->submit(r, &stopped).ok());
  SequenceRequest forced = r;
  forced.sampling.golden_token_ids = random_tokens(3, 40);
  Answer forced_answer;  // known ahead, computed beyond, hashed only as far as told
  forced_answer.stop_after = 7;
  ASSERT_TRUE(engine->submit(forced, &forced_answer).ok());
  while (engine->step()) {
  }
  EXPECT_EQ(stopped.tokens.size(), 7u);
  EXPECT_EQ(stopped.outcome.reason, FinishReason::kStop);
  SequenceRequest seven = r;
  seven.sampling.max_tokens = 7;
  EXPECT_EQ(stopped.outcome.kv_hash, run(options(1, 512, 64), {seven}).answers[0]->outcome.kv_hash);
  seven.sampling.golden_token_ids = random_tokens(3, 7);
  EXPECT_EQ(forced_answer.outcome.kv_hash, run(options(1, 512, 64), {seven}).answers[0]->outcome.kv_hash);
  EXPECT_NE(full.outcome.kv_hash, stopped.outcome.kv_hash);
}

TEST(Engine, CancellingANeighbourTouchesNobody) {
  const std::vector<SequenceRequest> requests = {ask(61, 130, 20), ask(62, 200, 30), ask(63, 90, 25)};
  const auto expected = digests(run(options(1, 512, 64), requests).answers);
  for (int when = 0; when < 12; when += 3) {
    FakeModel model({});
    auto engine = Engine::create(model, options(2, 32, 64)).value();  // the third waits
    Answer answers[3];
    SequenceId ids[3];
    for (int i = 0; i < 3; ++i) ids[i] = engine->submit(requests[i], &answers[i]).value();
    for (int i = 0; i < when; ++i) engine->step();
    const int victim = 1 + when % 2;
    engine->cancel(ids[victim]);
    engine->cancel(12345);
    while (engine->step()) {
    }
    for (int i = 0; i < 3; ++i) {
      if (i == victim) {
        EXPECT_EQ(answers[i].outcome.reason, FinishReason::kCancelled);
      } else {
        EXPECT_EQ(digest(answers[i]), expected[i]);
      }
    }
    EXPECT_EQ(engine->counters().cancelled, 1u);
    EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  }
}

TEST(Engine, ABadRowFailsItsOwnRequestAlone) {
  FakeOptions fake;
  fake.poison = 100;  // random_tokens never draws it
  std::vector<SequenceRequest> requests = {ask(71, 100, 9), ask(72, 90, 9), ask(73, 80, 9)};
  for (auto& r : requests) r.sampling.logit_bias = {{100, -100.0f}};
  const auto expected = digests(run(options(1, 512, 64), requests, fake).answers);
  requests[1].prompt[70] = 100;
  const Ran hurt = run(options(3, 32, 64), requests, fake);
  EXPECT_EQ(digest(*hurt.answers[0]), expected[0]);
  EXPECT_EQ(digest(*hurt.answers[2]), expected[2]);
  EXPECT_EQ(hurt.answers[1]->outcome.reason, FinishReason::kError);
  EXPECT_NE(hurt.answers[1]->outcome.error.find("position 70"), std::string::npos);
  EXPECT_TRUE(hurt.answers[1]->tokens.empty());
  EXPECT_EQ(hurt.counters.failed, 1u);
}

TEST(Engine, LogitsThatCannotBeDrawnFromFailTheirOwnRequestAlone) {
  FakeOptions fake;
  fake.nan_after = 100;
  std::vector<SequenceRequest> requests = {ask(74, 100, 9), ask(75, 90, 9), ask(76, 80, 9), ask(77, 30, 9)};
  for (auto& r : requests) r.sampling.logit_bias = {{100, -100.0f}};
  const auto expected = digests(run(options(1, 512, 64), requests, fake).answers);
  requests[1].sampling.golden_token_ids = {5, 6, 100};
  requests[3].prompt.back() = 100;
  const Ran hurt = run(options(4, 64, 64), requests, fake);
  EXPECT_EQ(digest(*hurt.answers[0]), expected[0]);
  EXPECT_EQ(digest(*hurt.answers[2]), expected[2]);
  EXPECT_EQ(hurt.answers[1]->tokens.size(), 3u);
  EXPECT_NE(hurt.answers[1]->outcome.error.find("not finite"), std::string::npos);
  EXPECT_NE(hurt.answers[1]->outcome.error.find("position 93"), std::string::npos);
  EXPECT_EQ(hurt.answers[3]->tokens.size(), 0u);
  EXPECT_EQ(hurt.counters.failed, 2u);
}

TEST(Engine, FirstComeFirstServed) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) requests.push_back(ask(300 + i, 100, 10));
  FakeModel model({});
  auto engine = Engine::create(model, options(2, 64, 64)).value();
  std::vector<std::unique_ptr<Answer>> answers;
  for (const auto& r : requests) {
    answers.push_back(std::make_unique<Answer>());
    ASSERT_TRUE(engine->submit(r, answers.back().get()).ok());
  }
  do {
    for (size_t i = 1; i < answers.size(); ++i) EXPECT_GE(answers[i - 1]->tokens.size(), answers[i]->tokens.size());
  } while (engine->step());
}

TEST(Engine, ATraceCanTellWhoseRowItSees) {
  struct Trace final : model::TraceSink {
    Engine* engine = nullptr;
    std::map<SequenceId, int64_t> rows;
    void record(const model::Batch& batch, int row, int, std::string_view, std::span<const std::byte>) override {
      const model::Row& r = batch.rows[static_cast<size_t>(row)];
      EXPECT_EQ(rows[engine->sequence_of(r.sequence)]++, r.position);
    }
  };
  FakeModel model({});
  auto engine = Engine::create(model, options(3, 50, 64, false)).value();
  Trace trace;
  trace.engine = engine.get();
  engine->set_trace(&trace);
  run_all(*engine, {ask(1, 70, 5), ask(2, 20, 9), ask(3, 130, 4)});
  EXPECT_EQ(trace.rows, (std::map<SequenceId, int64_t>{{1, 74}, {2, 28}, {3, 133}}));
}

TEST(Engine, AListenerMaySubmitAndCancel) {
  struct Chain final : Listener {
    Engine* engine = nullptr;
    Answer* next = nullptr;
    SequenceId victim = 0;
    void on_prompt(std::vector<SampledToken>) override {}
    bool on_token(const SampledToken&, bool) override {
      engine->cancel(victim);
      return true;
    }
    void on_finish(const Outcome&) override { EXPECT_TRUE(engine->submit(ask(82, 20, 3), next).ok()); }
  };
  FakeModel model({});
  auto engine = Engine::create(model, options(2, 512, 64)).value();
  Answer next, cancelled;
  Chain chain;
  chain.engine = engine.get();
  chain.next = &next;
  ASSERT_TRUE(engine->submit(ask(81, 20, 3), &chain).ok());
  chain.victim = engine->submit(ask(83, 20, 50), &cancelled).value();
  while (engine->step()) {
  }
  EXPECT_EQ(next.tokens.size(), 3u);
  EXPECT_EQ(cancelled.outcome.reason, FinishReason::kCancelled);
}

TEST(Engine, EndsAtTheContextAndScoresItWhole) {
  FakeOptions fake;
  fake.context = 100;
  const Ran ended = run(options(1, 512, 2), {ask(91, 90, 50), ask(92, 99, 5)}, fake);
  EXPECT_EQ(ended.answers[0]->tokens.size(), 10u);
  EXPECT_EQ(ended.answers[0]->outcome.reason, FinishReason::kLength);
  EXPECT_EQ(ended.answers[1]->tokens.size(), 1u);
  SequenceRequest score = ask(93, 100, 0), single = ask(94, 1, 0);
  score.sampling.prompt_logprobs = single.sampling.prompt_logprobs = 0;
  const Ran scored = run(options(2, 512, 2), {score, single}, fake);
  EXPECT_EQ(scored.answers[0]->prompt.size(), 100u);
  EXPECT_EQ(scored.answers[1]->prompt.size(), 1u);
  EXPECT_EQ(scored.answers[1]->prompts_told, 1);
  EXPECT_EQ(scored.counters.rows, 99u);
}

TEST(Engine, RefusesWhatCannotWork) {
  FakeOptions fake;
  fake.context = 200;
  FakeModel model(fake);
  auto engine = Engine::create(model, options(2, 64, 3)).value();
  Answer answer;
  const auto fault = [&](const char* words, const std::function<void(SequenceRequest&)>& change) {
    SequenceRequest r = ask(1, 50, 10);
    change(r);
    const auto submitted = engine->submit(r, &answer);
    ASSERT_FALSE(submitted.ok()) << words;
    EXPECT_NE(submitted.error().message.find(words), std::string::npos) << submitted.error().message;
  };
  fault("prompt_token_ids is empty", [](auto& r) { r.prompt.clear(); });
  fault("prompt_token_ids holds 101", [](auto& r) { r.prompt[3] = 101; });
  fault("prompt_token_ids holds -1", [](auto& r) { r.prompt[3] = -1; });
  fault("the prompt has 200 tokens", [](auto& r) { r.prompt.resize(200); });
  fault("golden_token_ids together", [](auto& r) {
    r.sampling.max_tokens = 160;
    r.sampling.golden_token_ids.resize(151);
  });
  fault("temperature", [](auto& r) { r.sampling.temperature = -1; });
  fault("KV blocks", [](auto& r) { r.sampling.max_tokens = 150; });
  EXPECT_FALSE(engine->step());

  const auto refused = [&](const char* words, const std::function<void(Options&)>& change) {
    Options o = options(2, 64, 3);
    change(o);
    const auto created = Engine::create(model, o);
    ASSERT_FALSE(created.ok()) << words;
    EXPECT_NE(created.error().message.find(words), std::string::npos) << created.error().message;
  };
  refused("max_batch", [](auto& o) { o.max_batch = 0; });
  refused("max_batch", [](auto& o) { o.max_batch = 513; });
  refused("prefill_chunk", [](auto& o) { o.prefill_chunk = 0; });
  refused("kv_blocks", [](auto& o) { o.kv_blocks = -1; });
  refused("kv_memory", [](auto& o) { o.kv_blocks = 0, o.kv_memory = 100; });
  refused("max_model_len", [](auto& o) { o.max_model_len = 201; });
  refused("end-of-text", [](auto& o) { o.eos = {101}; });
}

TEST(Engine, ManyRandomRequestsInLittleMemory) {
  // Whatever the scheduler does, everyone finishes with the answer they would have had alone.
  std::mt19937 rng(17);
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 40; ++i) {
    requests.push_back(ask(500 + i / 3, 1 + static_cast<int>(rng() % 150), 1 + static_cast<int>(rng() % 40)));
    requests.back().seed = i;
    if (rng() % 4 == 0) requests.back().sampling.prompt_logprobs = 1;
    if (rng() % 4 == 0) requests.back().sampling.repetition_penalty = 1.2f;
  }
  const auto expected = digests(run(options(1, 512, 64, false), requests).answers);
  for (int round = 0; round < 12; ++round) {
    const auto pick = [&](int least, uint32_t count) { return least + static_cast<int>(rng() % count); };
    Options o = options(pick(1, 12), pick(1, 90), pick(4, 12), round % 2 == 0);
    o.force_preempt = round % 3 == 0 ? 1 + static_cast<int>(rng() % 9) : 0;
    FakeOptions fake;
    fake.threads = 1 + round % 3;
    fake.max_rows = o.max_batch + static_cast<int>(rng() % 40);
    EXPECT_EQ(digests(run(o, requests, fake).answers), expected) << round;
  }
}

// A forced continuation that ends at its stop token, whose own row would fail: whatever the chunk, the answer ends at
// the stop.
TEST(Engine, AnAnswerThatEndsBeforeABadRowNeverNeededIt) {
  constexpr int32_t kPoison = 97;
  FakeOptions fake;
  fake.poison = kPoison;
  SequenceRequest request = ask(5, 3, 6);
  for (int32_t& token : request.prompt) token %= 90;
  request.sampling.golden_token_ids = {10, 7, kPoison};
  request.sampling.stop_token_ids = {kPoison};
  SequenceRequest fails = request;
  fails.sampling.stop_token_ids = {};
  std::set<size_t> lengths, failed_lengths;
  for (const int chunk : {1, 2, 3, 512}) {
    const Ran ran = run(options(2, chunk, 16), {request, fails}, fake);
    EXPECT_NE(ran.answers[0]->outcome.reason, FinishReason::kError) << chunk << ": " << ran.answers[0]->outcome.error;
    EXPECT_EQ(ran.answers[1]->outcome.reason, FinishReason::kError) << chunk;
    lengths.insert(ran.answers[0]->tokens.size());
    failed_lengths.insert(ran.answers[1]->tokens.size());
  }
  EXPECT_EQ(lengths.size(), 1u);
  EXPECT_EQ(failed_lengths.size(), 1u) << "a listener sees the same tokens before the error, whatever the chunk";
}

}  // namespace
}  // namespace eadem::engine
