// Guessing changes nothing but the work: the bytes of answers, logprobs, keys and values with every drafter, right or
// wrong, against none.
#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/fake_model.h"
#include "support/scripted_drafter.h"

namespace eadem::engine {
namespace {

using testing::Answers;
using testing::digests;
using testing::FakeModel;
using testing::FakeOptions;
using testing::ScriptedDrafter;
using Kind = SpeculationOptions::Kind;
using Manner = ScriptedDrafter::Manner;

// Few tokens, so that what stood before stands again and even a random guess is right at times.
constexpr int32_t kVocab = 7;

std::vector<int32_t> random_tokens(uint32_t seed, int n) {
  std::mt19937 rng(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng() % kVocab);
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

// Every kind of sampling that looks at tokens before its own, at its place in the answer, or at the answer's end.
std::vector<SequenceRequest> mixed_requests() {
  std::vector<SequenceRequest> all;
  for (uint32_t i = 0; i < 16; ++i) all.push_back(ask(i + 1, 1 + 17 * static_cast<int>(i) % 150, 20 + 3 * (i % 9)));
  all[0].sampling.temperature = 0;
  all[1].sampling.temperature = 0;
  all[1].sampling.repetition_penalty = 1.3f;
  all[2].sampling.repetition_penalty = 1.4f;
  all[3].sampling.frequency_penalty = 0.6f;
  all[4].sampling.presence_penalty = 1.0f;
  all[4].sampling.processed_logprobs = true;
  all[5].sampling.stop_token_ids = {3};
  all[6].sampling.stop_token_ids = {2, 5};
  all[6].sampling.min_tokens = 11;
  all[7].sampling.stop_token_ids = {1};
  all[7].sampling.min_tokens = 64;
  all[7].sampling.temperature = 0;
  all[7].sampling.max_tokens = 66;
  all[8].sampling.prompt_logprobs = 1;
  all[9].sampling.prompt_logprobs = 0;
  all[9].sampling.max_tokens = 0;
  all[10].sampling.golden_token_ids = random_tokens(77, 13);
  all[11].sampling.top_p = 0.8f;
  all[11].sampling.top_k = 5;
  all[11].sampling.processed_logprobs = true;
  all[12].sampling.max_tokens = 1;
  all[13].sampling.logit_bias = {{4, 3.0f}};
  all[14].sampling.max_tokens = 2;
  all[15].sampling.logprobs = -1;
  // n = 4: one prompt, four seeds.
  for (uint32_t i = 0; i < 4; ++i) {
    all.push_back(ask(50, 110, 40));
    all.back().seed += i;
  }
  return all;
}

Options options(int max_batch, int chunk, int blocks, bool prefix = false, int preempt = 0) {
  Options o;
  o.max_batch = max_batch;
  o.prefill_chunk = chunk;
  o.kv_blocks = blocks;
  o.prefix_cache = prefix;
  o.force_preempt = preempt;
  return o;
}

FakeOptions small_vocabulary() {
  FakeOptions fake;
  fake.vocab = kVocab;
  fake.threads = 2;
  return fake;
}

struct Ran {
  Answers answers;
  Counters counters;
};

// stop_after: tokens after which the listener ends each answer, as a stop string does.
Ran run(const Options& o, const std::vector<SequenceRequest>& requests, size_t stop_after = 0,
        const FakeOptions& fake = small_vocabulary()) {
  FakeModel model(fake);
  auto engine = Engine::create(model, o).value();
  Ran result;
  for (const SequenceRequest& request : requests) {
    result.answers.push_back(std::make_unique<testing::Answer>());
    result.answers.back()->stop_after = stop_after;
    EXPECT_TRUE(engine->submit(request, result.answers.back().get()).ok());
  }
  while (engine->step()) {
  }
  result.counters = engine->counters();
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());  // nothing leaks
  int drafted = 0, accepted = 0;
  for (const auto& answer : result.answers) {
    EXPECT_TRUE(answer->finished);
    drafted += answer->outcome.drafted_tokens;
    accepted += answer->outcome.accepted_tokens;
  }
  EXPECT_EQ(result.counters.drafted_tokens, static_cast<uint64_t>(drafted));
  EXPECT_EQ(result.counters.accepted_tokens, static_cast<uint64_t>(accepted));
  return result;
}

std::vector<std::vector<int32_t>> ids(const Answers& answers) {
  std::vector<std::vector<int32_t>> all;
  for (const auto& answer : answers) all.push_back(answer->ids());
  return all;
}

Options overlapped(Options o) {
  o.async_scheduling = true;
  return o;
}

// The ways of cutting up the work under which guessing is tried.
struct Way {
  const char* name;
  Options options;
};
std::vector<Way> ways() {
  return {{"alone", options(1, 512, 64)},
          {"together", options(6, 512, 64)},
          {"small chunks", options(3, 9, 64)},
          {"prefixes", options(5, 64, 64, true)},
          {"a small pool", options(6, 64, 5, true)},
          {"forced preemption", options(4, 64, 64, true, 5)},
          {"overlapped", overlapped(options(5, 64, 7, true, 9))}};
}

void expect_path(const Way& way, const Counters& counters) {
  const std::string name = way.name;
  if (name == "together") {
    EXPECT_GT(counters.mixed_steps, 0u);
  }
  if (name == "small chunks") {
    EXPECT_GT(counters.chunked_prompts, 5u);
  }
  if (name == "overlapped") {
    EXPECT_GT(counters.overlapped_steps, 5u);
  }
  if (name == "prefixes") {
    EXPECT_GT(counters.prefix_hit_tokens, 0u);
  }
  if (name == "a small pool" || name == "forced preemption") {
    EXPECT_GT(counters.preemptions, 0u);
  }
}

// Runs all ways with max_draft 1, 3 and 8; `set` fills the options, `check` looks at the counters.
void compare(const std::vector<SequenceRequest>& requests, const std::function<void(SpeculationOptions&)>& set,
             const std::function<void(const Counters&)>& check, size_t stop_after = 0) {
  const auto expected = digests(run(options(1, 512, 64), requests, stop_after).answers);
  for (Way way : ways()) {
    for (const int max_draft : {1, 3, 8}) {
      SCOPED_TRACE(::testing::Message() << way.name << ", max_draft " << max_draft);
      way.options.speculation.max_draft = max_draft;
      way.options.speculation.eager = true;
      set(way.options.speculation);
      const Ran guessed = run(way.options, requests, stop_after);
      EXPECT_EQ(digests(guessed.answers), expected);
      EXPECT_GT(guessed.counters.drafted_tokens, 0u);
      if (stop_after == 0) expect_path(way, guessed.counters);
      check(guessed.counters);
    }
  }
}

void accepts_and_rejects(const Counters& c) {
  EXPECT_GT(c.accepted_tokens, 3u);
  EXPECT_GT(c.drafted_tokens, c.accepted_tokens + 3);
}

TEST(Speculation, TheReferenceAnswersAreAllDifferent) {
  const auto answers = digests(run(options(1, 512, 64), mixed_requests()).answers);
  for (size_t i = 0; i < answers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(answers[i], answers[j]);
  }
}

TEST(Speculation, PromptLookupChangesNothing) {
  compare(mixed_requests(), [](auto& s) { s.kind = Kind::kNgram; }, accepts_and_rejects);
}

class Scripted : public ::testing::TestWithParam<Manner> {};

TEST_P(Scripted, ChangesNothing) {
  const Manner manner = GetParam();
  const auto requests = mixed_requests();
  const auto answers = ids(run(options(1, 512, 64), requests).answers);
  const auto set = [&](SpeculationOptions& s) {
    s.kind = Kind::kOther;
    s.drafter = std::make_shared<ScriptedDrafter>(manner, answers, kVocab);
  };
  compare(requests, set, [&](const Counters& c) {
    if (manner == Manner::kRight) {
      EXPECT_EQ(c.accepted_tokens, c.drafted_tokens);
    }
    if (manner == Manner::kWrong) {
      EXPECT_EQ(c.accepted_tokens, 0u);
    }
    if (manner == Manner::kMixed || manner == Manner::kRandom) {
      accepts_and_rejects(c);
    }
    if (manner == Manner::kHostile) {
      EXPECT_GT(c.accepted_tokens, 0u);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Manners, Scripted,
                         ::testing::Values(Manner::kRight, Manner::kMixed, Manner::kWrong, Manner::kRandom,
                                           Manner::kHostile));

TEST(Speculation, AListenerThatStopsAmidGuessesGetsTheSameBytes) {
  const auto requests = mixed_requests();
  const auto answers = ids(run(options(1, 512, 64), requests).answers);
  const auto set = [&](SpeculationOptions& s) {
    s.kind = Kind::kOther;
    s.drafter = std::make_shared<ScriptedDrafter>(Manner::kRight, answers, kVocab);
  };
  for (const size_t stop_after : {2, 6}) {
    compare(requests, set, [](const Counters& c) { EXPECT_GT(c.accepted_tokens, 0u); }, stop_after);
  }
}

// The draft model is the model itself: every guess is right, so its keys and values must have followed each step,
// rejection, preemption and shared prefix. Penalties and the like are left out: there a guess is only a guess.
TEST(Speculation, ADraftModelThatIsTheModelIsAlwaysRight) {
  auto requests = mixed_requests();
  for (auto& r : requests) {
    r.sampling.repetition_penalty = 1.0f;
    r.sampling.frequency_penalty = r.sampling.presence_penalty = 0.0f;
  }
  FakeModel draft(small_vocabulary());
  for (const int draft_blocks : {0, 7}) {
    const auto set = [&](SpeculationOptions& s) {
      s.kind = Kind::kDraft;
      s.draft_model = &draft;
      s.draft_blocks = draft_blocks;
    };
    compare(requests, set, [&](const Counters& c) {
      EXPECT_EQ(c.accepted_tokens, c.drafted_tokens);
      EXPECT_GT(c.accepted_tokens, 30u);
      EXPECT_GT(c.draft_steps, 0u);
    });
  }
}

TEST(Speculation, ADraftModelThatDiffersChangesNothing) {
  FakeOptions other = small_vocabulary();
  other.salt = 3;
  other.max_rows = 40;  // prompts take several of its steps
  FakeModel draft(other);
  const auto set = [&](SpeculationOptions& s) {
    s.kind = Kind::kDraft;
    s.draft_model = &draft;
  };
  compare(mixed_requests(), set, accepts_and_rejects);
}

TEST(Speculation, ADraftModelWithoutRoomForAllIsRebuilt) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) requests.push_back(ask(300 + i, 100, 60));
  const auto expected = digests(run(options(1, 512, 64), requests).answers);
  FakeModel draft(small_vocabulary());
  Options o = options(6, 512, 64);
  o.speculation.kind = Kind::kDraft;
  o.speculation.draft_model = &draft;
  o.speculation.draft_blocks = 7;  // two sequences of three blocks
  const Ran guessed = run(o, requests);
  EXPECT_EQ(digests(guessed.answers), expected);
  EXPECT_GT(guessed.counters.draft_rebuilds, 0u);
  EXPECT_GT(guessed.counters.accepted_tokens, 0u);
}

TEST(Speculation, TheComparisonFailsWhereEveryGuessCounts) {
  const auto requests = mixed_requests();
  const Ran plain = run(options(1, 512, 64), requests);
  Options o = options(1, 512, 64);
  o.speculation.kind = Kind::kOther;
  o.speculation.drafter = std::make_shared<ScriptedDrafter>(Manner::kWrong, ids(plain.answers), kVocab);
  o.speculation.accept_all = true;
  const Ran broken = run(o, requests);
  EXPECT_GT(broken.counters.accepted_tokens, 0u);
  EXPECT_NE(digests(broken.answers), digests(plain.answers));
}

// What was rejected must not be found by who asks with a prompt that begins like an answer.
TEST(Speculation, ThePrefixCacheHoldsNothingThatWasRejected) {
  const std::vector<SequenceRequest> first = {ask(400, 50, 150), ask(401, 60, 150, 0.0f)};
  const Ran plain = run(options(1, 512, 64), first);
  std::vector<SequenceRequest> second;
  for (size_t i = 0; i < first.size(); ++i) {
    SequenceRequest r = first[i];
    const auto answer = plain.answers[i]->ids();
    r.prompt.insert(r.prompt.end(), answer.begin(), answer.end());
    second.push_back(r);
    r.prompt[r.prompt.size() - 40] = (r.prompt[r.prompt.size() - 40] + 1) % kVocab;  // what was guessed there
    second.push_back(r);
  }
  const auto expected = digests(run(options(1, 512, 64), second).answers);
  FakeModel model(small_vocabulary());
  Options o = options(2, 512, 64, true);
  o.speculation.kind = Kind::kOther;
  o.speculation.drafter = std::make_shared<ScriptedDrafter>(Manner::kWrong, ids(plain.answers), kVocab);
  auto engine = Engine::create(model, o).value();
  EXPECT_EQ(digests(testing::run_all(*engine, first)), digests(plain.answers));
  EXPECT_GT(engine->counters().drafted_tokens, 500u);
  EXPECT_EQ(digests(testing::run_all(*engine, second)), expected);
  EXPECT_GT(engine->counters().prefix_hit_tokens, 300u);
}

TEST(Speculation, ABadRowOfAGuessIsNobodysFault) {
  FakeOptions fake = small_vocabulary();
  fake.poison = kVocab - 1;
  auto requests = mixed_requests();
  for (auto& r : requests) {
    for (int32_t& t : r.prompt) t %= kVocab - 1;
    for (int32_t& t : r.sampling.golden_token_ids) t %= kVocab - 1;
    r.sampling.logit_bias = {{kVocab - 1, -100.0f}};
  }
  const auto expected = run(options(1, 512, 64), requests, 0, fake);
  Options o = options(4, 64, 64);
  o.speculation.kind = Kind::kOther;
  o.speculation.drafter = std::make_shared<ScriptedDrafter>(Manner::kRandom, ids(expected.answers), kVocab);
  const Ran guessed = run(o, requests, 0, fake);
  EXPECT_EQ(digests(guessed.answers), digests(expected.answers));
  EXPECT_EQ(guessed.counters.failed, 0u);
  EXPECT_GT(guessed.counters.drafted_tokens, 200u);
}

TEST(Speculation, ABadRowOfARightGuessFailsAsItAlwaysWould) {
  FakeOptions fake = small_vocabulary();
  const auto requests = mixed_requests();
  const auto answers = ids(run(options(1, 512, 64), requests).answers);
  fake.poison = kVocab - 1;
  const Ran plain = run(options(1, 512, 64), requests, 0, fake);
  Options o = options(4, 64, 64);
  o.speculation.kind = Kind::kOther;
  o.speculation.drafter = std::make_shared<ScriptedDrafter>(Manner::kRight, answers, kVocab);
  const Ran guessed = run(o, requests, 0, fake);
  EXPECT_EQ(digests(guessed.answers), digests(plain.answers));
  EXPECT_GT(plain.counters.failed, 5u);
  EXPECT_EQ(guessed.counters.failed, plain.counters.failed);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(guessed.answers[i]->outcome.error, plain.answers[i]->outcome.error);
  }
}

TEST(Speculation, DraftsShrinkToNothingAsTheBatchGrows) {
  double previous = 100.0;
  for (const int batch : {1, 4, 40}) {
    std::vector<SequenceRequest> requests;
    for (int i = 0; i < batch; ++i) requests.push_back(ask(500 + static_cast<uint32_t>(i), 5, 60));
    Options o = options(batch, 512, 64);
    o.speculation.kind = Kind::kOther;
    o.speculation.drafter =
        std::make_shared<ScriptedDrafter>(Manner::kWrong, std::vector<std::vector<int32_t>>(1), kVocab, 0.8f);
    const Ran guessed = run(o, requests);
    const double each = static_cast<double>(guessed.counters.drafted_tokens) / (60.0 * batch);
    EXPECT_LT(each, previous);
    if (batch == 1) {
      EXPECT_GT(each, 3.0);
    }
    if (batch == 40) {
      EXPECT_LT(each, 0.1);
    }
    previous = each;
  }
}

TEST(Speculation, AStepIsNeverLargerThanItsBudget) {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) requests.push_back(ask(600 + i, 40, 40));
  const auto answers = ids(run(options(1, 512, 64), requests).answers);
  for (const int chunk : {1, 5, 20}) {
    Options o = options(4, chunk, 64);
    o.speculation.kind = Kind::kOther;
    o.speculation.max_draft = kMostDraft;
    o.speculation.drafter = std::make_shared<ScriptedDrafter>(Manner::kRight, answers, kVocab);
    EXPECT_LE(run(o, requests).counters.max_rows, static_cast<uint64_t>(std::max(chunk, 4 + 1)));
  }
}

TEST(Speculation, TheCostOfAStepIsConvexAndGrows) {
  float slope = 0.0f;
  for (int rows = 1; rows < 600; ++rows) {
    const float more = step_cost(rows + 1) - step_cost(rows);
    EXPECT_GT(more, 0.0f);
    EXPECT_GE(more, slope - 1e-4f) << rows;
    slope = more;
  }
}

TEST(Speculation, FaultyOptionsAreRefusedByName) {
  FakeModel model(small_vocabulary());
  FakeOptions larger = small_vocabulary();
  larger.vocab = kVocab + 1;
  FakeModel other(larger);
  const auto error_of = [&](const std::function<void(SpeculationOptions&)>& set) {
    Options o = options(2, 64, 64);
    set(o.speculation);
    const auto engine = Engine::create(model, o);
    return engine.ok() ? std::string() : engine.error().message;
  };
  EXPECT_NE(error_of([](auto& s) { s.kind = Kind::kNgram, s.max_draft = 0; }).find("max_draft"), std::string::npos);
  EXPECT_NE(error_of([](auto& s) { s.kind = Kind::kNgram, s.max_draft = 33; }).find("max_draft"), std::string::npos);
  EXPECT_NE(error_of([](auto& s) { s.kind = Kind::kDraft; }).find("draft_model"), std::string::npos);
  EXPECT_NE(error_of([&](auto& s) { s.kind = Kind::kDraft, s.draft_model = &other; }).find("vocabulary"),
            std::string::npos);
}

}  // namespace
}  // namespace eadem::engine
