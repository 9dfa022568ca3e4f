// Guides inside the engine, on a model and a grammar that both depend on every earlier token of their own sequence.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/fake_guide.h"
#include "support/fake_model.h"
#include "support/scripted_drafter.h"

namespace eadem::engine {
namespace {

using testing::Answers;
using testing::digests;
using testing::FakeGrammar;
using testing::FakeGuide;
using testing::FakeModel;
using testing::FakeOptions;
using testing::run_all;

constexpr int32_t kEos = 100;

SequenceRequest ask(uint32_t seed, int prompt, int max_tokens, const FakeGrammar& grammar = {}) {
  SequenceRequest r;
  std::mt19937 rng(seed);
  for (int i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng() % 100));
  r.sampling.max_tokens = max_tokens;
  r.sampling.temperature = 0.9f;
  r.sampling.logprobs = 2;
  r.sampling.processed_logprobs = seed % 2 == 0;
  r.sampling.guide = Guide{};
  r.guide = std::make_shared<FakeGuide>(grammar);
  r.seed = seed * 7919;
  r.kv_hash = true;
  return r;
}

// Guided and free ones, greedy and penalised, and four answers of one prompt that share one guide to start from.
std::vector<SequenceRequest> requests(bool shares_place = false) {
  std::vector<SequenceRequest> all;
  for (uint32_t i = 0; i < 8; ++i) {
    FakeGrammar grammar;
    grammar.eos = i % 3 == 0 ? kEos : -1;
    grammar.least = 4;
    grammar.most = i % 2 == 0 ? 9 : 1 << 20;
    grammar.shares_place = shares_place;
    all.push_back(ask(i + 1, 1 + 29 * static_cast<int>(i), 14, grammar));
  }
  all[2].sampling.repetition_penalty = 1.4f;
  all[4].sampling.temperature = 0.0f;
  all[5].sampling.guide.reset();
  all[5].guide = nullptr;
  all[6].sampling.top_p = 0.7f;
  for (uint64_t i = 0; i < 3; ++i) {
    all.push_back(all[7]);
    all.back().seed += i + 1;
  }
  return all;
}

struct Way {
  int batch = 1, chunk = 512, preempt = 0, threads = 1;
  bool async = false;
  std::shared_ptr<Drafter> drafter = nullptr;
};

Answers run(const Way& way, const std::vector<SequenceRequest>& asked, Counters* counters = nullptr) {
  FakeOptions fake;
  fake.threads = way.threads;
  FakeModel model(fake);
  Options options;
  options.max_batch = way.batch;
  options.prefill_chunk = way.chunk;
  options.kv_blocks = 64;
  options.force_preempt = way.preempt;
  options.eos = {kEos};
  options.async_scheduling = way.async;
  options.speculation.kind = way.drafter ? SpeculationOptions::Kind::kOther : SpeculationOptions::Kind::kOff;
  options.speculation.drafter = way.drafter;
  options.speculation.eager = true;
  auto engine = Engine::create(model, options).value();
  Answers answers = run_all(*engine, asked);
  if (counters != nullptr) *counters = engine->counters();
  return answers;
}

void expect_within(const FakeGrammar& grammar, const testing::Answer& answer) {
  std::vector<int32_t> before;
  for (const int32_t token : answer.ids()) {
    EXPECT_TRUE(FakeGuide::allows(grammar, before, token)) << "token " << before.size();
    before.push_back(token);
  }
}

TEST(EngineGuide, AnswersDoNotDependOnHowTheWorkIsCut) {
  const auto all = requests();
  Counters counters;
  const auto expected = digests(run({}, all, &counters));
  EXPECT_EQ(counters.mixed_steps, 0u);
  EXPECT_GT(counters.masked_rows, 60u);
  const uint64_t masked = counters.masked_rows;
  for (const Way& way : {Way{11, 512}, Way{4, 1}, Way{4, 7}, Way{11, 64, 1}, Way{11, 64, 3}, Way{11, 512, 0, 3}}) {
    SCOPED_TRACE(::testing::Message() << way.batch << " " << way.chunk << " " << way.preempt << " " << way.threads);
    EXPECT_EQ(digests(run(way, all, &counters)), expected);
    EXPECT_GT(counters.mixed_steps, 0u);
    EXPECT_EQ(counters.masked_rows, masked);
    if (way.preempt > 0) {
      EXPECT_GT(counters.preemptions, 8u);
    }
  }
}

TEST(EngineGuide, AsynchronousStepsAndGuessesDoNotMatter) {
  using Manner = testing::ScriptedDrafter::Manner;
  const auto all = requests();
  Counters counters;
  const Answers plain = run({}, all, &counters);
  const uint64_t masked = counters.masked_rows;
  std::vector<std::vector<int32_t>> ids;
  for (const auto& answer : plain) ids.push_back(answer->ids());
  for (const Manner manner : {Manner::kRight, Manner::kMixed, Manner::kWrong, Manner::kRandom}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(manner) << " " << async);
      const auto drafter = std::make_shared<testing::ScriptedDrafter>(manner, ids, 101);
      EXPECT_EQ(digests(run({11, 64, 3, 2, async, drafter}, all, &counters)), digests(plain));
      // Rows behind a wrong guess move no guide; one behind an answer's end may be masked in vain.
      EXPECT_GE(counters.masked_rows, masked);
      EXPECT_LE(counters.masked_rows, masked + all.size());
      EXPECT_GT(counters.drafted_tokens, 20u);
      if (manner == Manner::kWrong) {
        EXPECT_EQ(counters.accepted_tokens, 0u);
      } else if (manner != Manner::kRandom) {
        EXPECT_GT(counters.accepted_tokens, 10u);
      }
    }
  }
}

TEST(EngineGuide, TheComparisonFailsWherePlacesAreShared) {
  EXPECT_NE(digests(run({11, 512}, requests(true))), digests(run({1, 512}, requests(false))));
}

TEST(EngineGuide, EveryTokenIsOneThatMayFollow) {
  FakeGrammar grammar;
  const Answers guided = run({}, {ask(5, 20, 40, grammar)});
  EXPECT_EQ(guided[0]->tokens.size(), 40u);
  expect_within(grammar, *guided[0]);
  SequenceRequest free = ask(5, 20, 40, grammar);
  free.sampling.guide.reset();
  free.guide = nullptr;
  const Answers unguided = run({}, {free});
  EXPECT_NE(unguided[0]->ids(), guided[0]->ids());
}

TEST(EngineGuide, RawLogprobsDoNotSeeTheMaskAndProcessedOnesDo) {
  SequenceRequest r = ask(3, 20, 1);
  r.sampling.logprobs = 101;
  r.sampling.processed_logprobs = false;
  EXPECT_EQ(run({}, {r})[0]->tokens[0].top.size(), 101u);
  r.sampling.processed_logprobs = true;
  const Answers processed = run({}, {r});
  EXPECT_LT(processed[0]->tokens[0].top.size(), 60u);
  for (const TokenLogprob& top : processed[0]->tokens[0].top) EXPECT_TRUE(FakeGuide::allows({}, {}, top.token));
}

TEST(EngineGuide, TheAnswerEndsWhereNothingMayFollow) {
  FakeGrammar grammar;
  grammar.most = 6;
  const Answers answers = run({}, {ask(8, 30, 40, grammar)});
  EXPECT_EQ(answers[0]->tokens.size(), 6u);
  EXPECT_TRUE(answers[0]->last_seen);
  EXPECT_EQ(answers[0]->outcome.reason, FinishReason::kStop);

  grammar = {};
  grammar.eos = kEos;
  grammar.least = 3;
  SequenceRequest r = ask(9, 30, 40, grammar);
  r.sampling.logit_bias = {{kEos, 100.0f}};
  const Answers ended = run({}, {r});
  EXPECT_EQ(ended[0]->tokens.size(), 4u);
  EXPECT_EQ(ended[0]->ids().back(), kEos);
  EXPECT_EQ(ended[0]->outcome.reason, FinishReason::kStop);
}

TEST(EngineGuide, ForcedTokensMoveTheGuideOn) {
  SequenceRequest r = ask(12, 40, 12);
  r.sampling.processed_logprobs = true;
  const Answers generated = run({}, {r});
  for (const size_t forced : {size_t{5}, size_t{12}}) {
    const auto ids = generated[0]->ids();
    r.sampling.golden_token_ids.assign(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(forced));
    for (const int chunk : {512, 3}) {
      Counters counters;
      EXPECT_EQ(digests(run({1, chunk}, {r}, &counters)), digests(generated));
      EXPECT_EQ(counters.masked_rows, 12u);
    }
  }
  // A forced token that may not follow ends the answer with an error.
  r.sampling.golden_token_ids = {generated[0]->ids()[0], generated[0]->ids()[1]};
  int32_t& second = r.sampling.golden_token_ids[1];
  while (FakeGuide::allows({}, {generated[0]->ids()[0]}, second)) second = (second + 1) % 100;
  const Answers refused = run({}, {r});
  EXPECT_EQ(refused[0]->tokens.size(), 1u);
  EXPECT_EQ(refused[0]->outcome.reason, FinishReason::kError);
  EXPECT_NE(refused[0]->outcome.error.find("guide: token"), std::string::npos) << refused[0]->outcome.error;
}

TEST(EngineGuide, AGrammarThatGivesUpEndsItsAnswerAlone) {
  auto all = requests();
  const auto expected = digests(run({}, all));
  FakeGrammar grammar;
  grammar.fails_after = 3;
  all.push_back(ask(77, 30, 20, grammar));
  const Answers answers = run({12, 64}, all);
  EXPECT_EQ(answers.back()->outcome.reason, FinishReason::kError);
  EXPECT_EQ(answers.back()->tokens.size(), 3u);
  EXPECT_NE(answers.back()->outcome.error.find("guide: too complex (position 33)"), std::string::npos)
      << answers.back()->outcome.error;
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(digest(*answers[i]), expected[i]);
}

TEST(EngineGuide, AGuideThatNobodyMadeIsRefused) {
  FakeModel model(FakeOptions{});
  auto engine = Engine::create(model, {}).value();
  SequenceRequest r = ask(1, 5, 5);
  r.guide = nullptr;
  testing::Answer answer;
  EXPECT_FALSE(engine->submit(r, &answer).ok());
}

}  // namespace
}  // namespace eadem::engine
