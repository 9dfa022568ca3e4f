// Who runs when: priorities, nobody starving, the budget of steps that draw tokens, blocks that are pinned and blocks
// that are not. Answers are compared with those of each request alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/fake_model.h"

namespace eadem::engine {
namespace {

using testing::Answer;
using testing::digest;
using testing::FakeModel;
using testing::FakeOptions;
using testing::run_all;

SequenceRequest ask(uint32_t seed, int prompt, int max_tokens, int priority = 0) {
  std::mt19937 rng(seed);
  SequenceRequest r;
  for (int i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng() % 100));
  r.sampling.max_tokens = max_tokens;
  r.sampling.logprobs = 1;
  r.seed = seed * 7919;
  r.priority = priority;
  r.kv_hash = true;
  return r;
}

Options options(int max_batch, int chunk, int blocks) {
  Options o;
  o.max_batch = max_batch;
  o.prefill_chunk = chunk;
  o.kv_blocks = blocks;
  return o;
}

std::string alone(const SequenceRequest& request) {
  FakeModel model({});
  auto engine = Engine::create(model, options(1, 512, 80)).value();
  return digest(*run_all(*engine, {request})[0]);
}

// Notes the order in which sequences end.
struct Ordered final : Listener {
  Ordered(int number, std::vector<int>* order, std::function<void()> then = {})
      : name(number), ended(order), after(std::move(then)) {}
  void on_prompt(std::vector<SampledToken> tokens) override { answer.on_prompt(std::move(tokens)); }
  bool on_token(const SampledToken& token, bool last) override { return answer.on_token(token, last); }
  void on_finish(const Outcome& outcome) override {
    answer.on_finish(outcome);
    ended->push_back(name);
    if (after) after();
  }
  int name;
  std::vector<int>* ended;
  std::function<void()> after;
  Answer answer;
};

TEST(Scheduler, SmallerPrioritiesComeFirstAndEqualOnesByArrival) {
  for (const bool async : {false, true}) {
    FakeModel model({});
    Options o = options(1, 512, 64);
    o.async_scheduling = async;
    auto engine = Engine::create(model, o).value();
    std::vector<int> order;
    std::vector<std::unique_ptr<Ordered>> listeners;
    const std::vector<int> priorities = {0, 5, 0, -7, 5, -7};
    for (size_t i = 0; i < priorities.size(); ++i) {
      listeners.push_back(std::make_unique<Ordered>(static_cast<int>(i), &order));
      const auto request = ask(static_cast<uint32_t>(i) + 1, 20, 4, priorities[i]);
      ASSERT_TRUE(engine->submit(request, listeners.back().get()).ok());
    }
    while (engine->step()) {
    }
    EXPECT_EQ(order, (std::vector<int>{3, 5, 0, 2, 1, 4}));
    EXPECT_EQ(engine->counters().aged_admissions, 0u);
    for (size_t i = 0; i < listeners.size(); ++i) {
      EXPECT_EQ(digest(listeners[i]->answer), alone(ask(static_cast<uint32_t>(i) + 1, 20, 4))) << i;
    }
  }
}

// As many requests of a better priority as one likes: whoever has waited longest has each eighth turn.
TEST(Scheduler, NobodyStarves) {
  FakeModel model({});
  auto engine = Engine::create(model, options(1, 512, 64)).value();
  std::vector<int> order;
  std::vector<std::unique_ptr<Ordered>> listeners;
  int fed = 0;
  const std::function<void()> feed = [&] {
    if (fed == 60) return;
    listeners.push_back(std::make_unique<Ordered>(++fed, &order, feed));
    ASSERT_TRUE(engine->submit(ask(static_cast<uint32_t>(fed), 5, 2), listeners.back().get()).ok());
  };
  Ordered last(-1, &order), also_last(-2, &order);
  ASSERT_TRUE(engine->submit(ask(1000, 90, 3, 1 << 30), &last).ok());
  ASSERT_TRUE(engine->submit(ask(1001, 90, 3, 1 << 30), &also_last).ok());
  feed();
  feed();
  while (engine->step()) {
  }
  const auto place = [&](int name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  EXPECT_EQ(place(-1), 7);
  EXPECT_EQ(place(-2), 15);
  EXPECT_EQ(engine->counters().aged_admissions, 2u);
  EXPECT_EQ(order.size(), 62u);
  EXPECT_EQ(digest(last.answer), alone(ask(1000, 90, 3)));
}

// Two that cannot both be held: the younger one with the better priority takes the blocks.
TEST(Scheduler, BlocksAreTakenFromTheWorsePriority) {
  for (const int priority : {0, -1}) {
    FakeModel model({});
    auto engine = Engine::create(model, options(2, 512, 4)).value();
    std::vector<int> order;
    Ordered older(1, &order), younger(2, &order);
    ASSERT_TRUE(engine->submit(ask(1, 60, 100), &older).ok());
    ASSERT_TRUE(engine->submit(ask(2, 60, 100, priority), &younger).ok());
    while (engine->step()) {
    }
    EXPECT_GT(engine->counters().preemptions, 0u);
    EXPECT_EQ(order, priority < 0 ? (std::vector<int>{2, 1}) : (std::vector<int>{1, 2}));
    EXPECT_EQ(digest(older.answer), alone(ask(1, 60, 100)));
    EXPECT_EQ(digest(younger.answer), alone(ask(2, 60, 100)));
  }
}

// Rows of each step while two sequences draw tokens and a long prompt arrives.
std::vector<uint64_t> rows_beside(const Options& o, Counters& counters, std::string& bits) {
  FakeModel model({});
  auto engine = Engine::create(model, o).value();
  Answer drawing[2], prompt;
  for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(engine->submit(ask(i + 1, 10, 150), &drawing[i]).ok());
  for (int i = 0; i < 5; ++i) engine->step();
  EXPECT_TRUE(engine->submit(ask(9, 900, 3), &prompt).ok());
  std::vector<uint64_t> rows;
  while (!prompt.finished) {
    const uint64_t before = engine->counters().rows;
    engine->step();
    rows.push_back(engine->counters().rows - before);
  }
  while (engine->step()) {
  }
  counters = engine->counters();
  bits = digest(drawing[0]) + digest(drawing[1]) + digest(prompt);
  return rows;
}

TEST(Scheduler, ALongPromptDoesNotHoldUpThoseThatDrawTokens) {
  const std::string expected = alone(ask(1, 10, 150)) + alone(ask(2, 10, 150)) + alone(ask(9, 900, 3));
  Counters counters;
  std::string bits;
  for (const bool async : {false, true}) {
    Options o = options(3, 512, 64);
    o.async_scheduling = async;
    const auto rows = rows_beside(o, counters, bits);
    EXPECT_LE(*std::max_element(rows.begin(), rows.end()), 2u + 15u);
    EXPECT_GT(rows.size(), 60u);
    EXPECT_GT(counters.held_chunks, 50u);
    EXPECT_EQ(bits, expected);
    EXPECT_EQ(rows_beside(o, counters, bits), rows) << "a function of shapes alone";
    o.mixed_chunk = 100;
    const auto wider = rows_beside(o, counters, bits);
    EXPECT_GT(*std::max_element(wider.begin(), wider.end()), 60u);
    EXPECT_LE(*std::max_element(wider.begin(), wider.end()), 102u);
    EXPECT_EQ(bits, expected);
    o.mixed_chunk = 1;
    const auto slow = rows_beside(o, counters, bits);
    EXPECT_LE(*std::max_element(slow.begin(), slow.end() - 5), 3u);
    EXPECT_EQ(bits, expected);
  }
  // The control: without a budget the prompt's chunk is as large as any.
  Options o = options(3, 512, 64);
  o.mixed_chunk = 1 << 20;
  const auto rows = rows_beside(o, counters, bits);
  EXPECT_GT(*std::max_element(rows.begin(), rows.end()), 400u);
  EXPECT_EQ(bits, expected);
}

TEST(Scheduler, CachedBlocksThatSomeoneHoldsAreNeverTaken) {
  FakeModel model({});
  Options o = options(2, 512, 12);
  o.mixed_chunk = 512;
  auto engine = Engine::create(model, o).value();
  const SequenceRequest shared = ask(1, 200, 2);
  EXPECT_EQ(digest(*run_all(*engine, {shared})[0]), alone(shared));
  EXPECT_EQ(engine->load().kv_blocks_evictable, 3);
  EXPECT_EQ(engine->load().kv_blocks_used, 0);

  SequenceRequest longer = shared;
  longer.sampling.max_tokens = 60;
  Answer holding;
  ASSERT_TRUE(engine->submit(longer, &holding).ok());
  engine->step();
  EXPECT_EQ(engine->load().kv_blocks_evictable, 0) << "pinned by who uses them";
  for (uint32_t i = 0; i < 6; ++i) {
    Answer passing;  // takes all that is left, over and over
    ASSERT_TRUE(engine->submit(ask(50 + i, 400, 3), &passing).ok());
    while (!passing.finished) engine->step();
    EXPECT_EQ(digest(passing), alone(ask(50 + i, 400, 3)));
  }
  EXPECT_FALSE(holding.finished);
  EXPECT_GT(engine->counters().prefix_evictions, 10u);
  EXPECT_EQ(engine->counters().preemptions, 0u);
  while (engine->step()) {
  }
  EXPECT_EQ(digest(holding), alone(longer));
  EXPECT_EQ(engine->load().kv_blocks_used, 0);
}

TEST(Scheduler, AListenerHearsOnceThatItsSequenceBegan) {
  struct Begun final : Listener {
    int starts = 0, tokens = 0;
    void on_start() override {
      EXPECT_EQ(tokens, 0);
      ++starts;
    }
    void on_prompt(std::vector<SampledToken>) override {}
    bool on_token(const SampledToken&, bool) override { return ++tokens > 0; }
    void on_finish(const Outcome&) override {}
  };
  FakeModel model({});
  Options o = options(1, 64, 64);
  o.force_preempt = 2;
  auto engine = Engine::create(model, o).value();
  Begun first, second;
  ASSERT_TRUE(engine->submit(ask(1, 100, 9), &first).ok());
  ASSERT_TRUE(engine->submit(ask(2, 100, 9), &second).ok());
  engine->step();
  EXPECT_EQ(first.starts, 1);
  EXPECT_EQ(second.starts, 0);
  while (engine->step()) {
  }
  EXPECT_EQ(first.starts, 1);
  EXPECT_EQ(second.starts, 1);
  EXPECT_GT(engine->counters().preemptions, 4u);
}

}  // namespace
}  // namespace eadem::engine
