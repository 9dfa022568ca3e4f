// A real, small model: token ids, the bits of logprobs and the KV hash of every request are the same in whatever
// company, in whatever pieces and on however many threads it is computed. Each cell proves by counters that it did
// what its name says.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <span>

#include "engine/engine.h"
#include "numerics/rng.h"
#include "support/brief.h"
#include "support/engine_run.h"
#include "support/scripted_drafter.h"
#include "support/tiny_llama.h"
#include "weights/checkpoint.h"

namespace eadem::engine {
namespace {

using numerics::Numerics;
using testing::Answer;
using testing::Answers;
using testing::brief;
using testing::digests;
using testing::run_all;

constexpr int kAll = 1 << 20;  // a chunk that holds everything the model takes at once

class TinyModel {
 public:
  TinyModel() {
    testing::write_tiny_llama(folder_.path());
    auto opened = weights::Checkpoint::open(folder_.path());
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    checkpoint_ = std::make_unique<weights::Checkpoint>(std::move(opened).value());
  }

  std::unique_ptr<model::Model> load(Numerics numerics, int threads, const kernels::KernelSet& set) const {
    model::ModelOptions options;
    options.numerics = numerics;
    options.threads = threads;
    options.kernels = &set;
    options.max_rows = 1500;
    auto loaded = model::Model::load(*checkpoint_, options);
    if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
    return std::move(loaded).value();
  }

 private:
  test::TempDirectory folder_;
  std::unique_ptr<weights::Checkpoint> checkpoint_;
};

const TinyModel& tiny() {
  static const TinyModel model;
  return model;
}

// Requests of 1 to 1,100 tokens (past a split of attention), each sampled in its own way; some begin alike.
std::vector<SequenceRequest> requests(int count, bool long_one) {
  std::mt19937 rng(4);
  std::vector<SequenceRequest> all;
  std::vector<int32_t> shared(200);
  for (int32_t& t : shared) t = static_cast<int32_t>(rng() % 211);
  for (int i = 0; i < count; ++i) {
    SequenceRequest r;
    const size_t length = i == 0 && long_one ? 1100 : 1 + rng() % 140;
    r.prompt.resize(length);
    for (int32_t& t : r.prompt) t = static_cast<int32_t>(rng() % 211);
    if (i % 4 == 3) std::copy_n(shared.begin(), std::min<size_t>(length, 130), r.prompt.begin());
    r.sampling.max_tokens = 5 + i % 7;
    r.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
    r.sampling.top_p = i % 3 == 1 ? 0.95f : 1.0f;
    r.sampling.repetition_penalty = i % 5 == 2 ? 1.2f : 1.0f;
    r.sampling.logprobs = 3;
    r.sampling.prompt_logprobs = i % 6 == 5 ? 1 : -1;
    r.seed = 99 + static_cast<uint64_t>(i);
    r.kv_hash = true;
    all.push_back(std::move(r));
  }
  return all;
}

struct Cell {
  Numerics numerics = Numerics::kFma32;
  int threads = 1, batch = 1, chunk = kAll, blocks = 0;
  bool prefix = false;
  int preempt = 0;
  SpeculationOptions speculation = {};
};

Answers run(const Cell& cell, const std::vector<SequenceRequest>& asked, Counters* counters = nullptr,
            const kernels::KernelSet& set = kernels::best_kernel_set()) {
  const auto model = tiny().load(cell.numerics, cell.threads, set);
  Options options;
  options.max_batch = cell.batch;
  options.prefill_chunk = cell.chunk;
  options.mixed_chunk = 1 << 20;  // prompts are not held back beside drawing rows, so that the batch fills up
  options.kv_blocks = cell.blocks;
  options.prefix_cache = cell.prefix;
  options.force_preempt = cell.preempt;
  options.speculation = cell.speculation;
  auto engine = Engine::create(*model, options).value();
  Answers answers = run_all(*engine, asked);
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  for (const auto& answer : answers) {
    EXPECT_EQ(answer->outcome.error, "");
    EXPECT_EQ(answer->outcome.kv_hash.size(), 64u);
  }
  if (counters != nullptr) *counters = engine->counters();
  return answers;
}

class Invariance : public ::testing::TestWithParam<Numerics> {
 protected:
  // mma16 is emulated in integers on a CPU: fewer and shorter requests.
  bool emulated() const { return GetParam() == Numerics::kMma16; }
  std::vector<SequenceRequest> asked(bool long_one = !brief()) const {
    return requests(emulated() ? 7 : brief() ? 9 : 34, long_one && !emulated());
  }
  Cell cell(int threads, int batch, int chunk, int blocks = 0, bool prefix = false, int preempt = 0) const {
    return {GetParam(), threads, batch, chunk, blocks, prefix, preempt};
  }
};

TEST_P(Invariance, BatchChunkThreadsAndPreemption) {
  const auto all = asked(true);
  Counters counters;
  const auto expected = digests(run(cell(1, 1, kAll), all, &counters));
  EXPECT_EQ(counters.mixed_steps, 0u);
  EXPECT_EQ(std::set<std::string>(expected.begin(), expected.end()).size(), expected.size());
  struct Way {
    int threads, batch, chunk, preempt;
  };
  const Way ways[] = {{1, 33, 1, 0}, {2, 7, 7, 5},   {3, 33, 500, 4},  {1, 2, 7, 0},   {2, 7, 64, 0},  {3, 16, 500, 0},
                      {3, 1, 7, 0},  {2, 2, 500, 0}, {2, 33, kAll, 0}, {1, 16, 64, 3}, {1, 7, kAll, 1}};
  for (const Way& way : std::span(ways).first(brief() ? 3 : std::size(ways))) {
    SCOPED_TRACE(::testing::Message() << "threads " << way.threads << " batch " << way.batch << " chunk " << way.chunk
                                      << " preempt " << way.preempt);
    const Cell cut = cell(way.threads, way.batch, way.chunk, 0, false, way.preempt);
    EXPECT_EQ(digests(run(cut, all, &counters)), expected);
    if (way.batch > 1) {
      EXPECT_GT(counters.mixed_steps, 0u);
      // Short answers end while small chunks of the next prompts are computed.
      const auto batch = std::min<uint64_t>(all.size(), static_cast<uint64_t>(way.batch));
      EXPECT_GE(counters.max_sequences, way.chunk < 500 ? 2 : batch / 2);
    }
    if (way.chunk < 100) {
      EXPECT_GT(counters.chunked_prompts, 0u);
    }
    if (way.preempt > 0) {
      EXPECT_GT(counters.preemptions, 0u);
      EXPECT_GT(counters.recomputed_tokens, 0u);
    }
  }
}

TEST_P(Invariance, PreemptionWhenBlocksRunOut) {
  auto all = requests(5, false);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].prompt.resize(50 + i, 3);
    all[i].sampling.max_tokens = 40;
  }
  const auto expected = digests(run(cell(1, 1, kAll), all));
  for (const bool prefix : {false, true}) {
    Counters counters;
    EXPECT_EQ(digests(run(cell(2, 5, 32, 5, prefix), all, &counters)), expected);
    EXPECT_GT(counters.preemptions, 0u);
    EXPECT_GT(counters.recomputed_tokens, 0u);
  }
}

TEST_P(Invariance, PrefixColdWarmPartialEvicted) {
  const auto all = asked();
  const auto expected = digests(run(cell(1, 1, kAll), all));
  const auto model = tiny().load(GetParam(), 2, kernels::best_kernel_set());
  Options options;
  options.max_batch = 5;
  options.prefill_chunk = 100;
  auto engine = Engine::create(*model, options).value();
  EXPECT_EQ(digests(run_all(*engine, all)), expected);
  const uint64_t cold = engine->counters().prefix_hit_tokens;
  EXPECT_EQ(digests(run_all(*engine, all)), expected);
  EXPECT_GT(engine->counters().prefix_hit_tokens, cold + 64);

  options.kv_blocks = emulated() || brief() ? 5 : 20;  // the cache cannot keep everything
  options.max_batch = 2;
  auto small = Engine::create(*model, options).value();
  for (int round = 0; round < 2; ++round) EXPECT_EQ(digests(run_all(*small, all)), expected);
  EXPECT_GT(small->counters().prefix_evictions, 0u);
}

TEST_P(Invariance, ScoringAndForcedContinuationGiveGenerationsBits) {
  auto all = requests(6, !emulated() && !brief());
  for (auto& r : all) r.sampling.prompt_logprobs = -1;
  const Answers generated = run(cell(1, 1, kAll), all);
  std::vector<SequenceRequest> scores, forced;
  for (size_t i = 0; i < all.size(); ++i) {
    SequenceRequest score = all[i], force = all[i];
    const std::vector<int32_t> ids = generated[i]->ids();
    score.prompt.insert(score.prompt.end(), ids.begin(), ids.end());
    score.sampling.max_tokens = 0;
    score.sampling.prompt_logprobs = score.sampling.logprobs;
    force.sampling.golden_token_ids = ids;
    scores.push_back(std::move(score));
    forced.push_back(std::move(force));
  }
  const int chunks[] = {64, kAll, 7};
  for (const int chunk : std::span(chunks).first(brief() ? 1 : 3)) {
    EXPECT_EQ(digests(run(cell(2, 3, chunk), forced)), digests(generated));
    const Answers scored = run(cell(2, 3, chunk), scores);
    for (size_t i = 0; i < all.size(); ++i) {
      Answer tail;
      const auto& told = scored[i]->prompt;
      tail.tokens.assign(told.begin() + static_cast<ptrdiff_t>(all[i].prompt.size()), told.end());
      tail.outcome.reason = generated[i]->outcome.reason;
      tail.outcome.kv_hash = scored[i]->outcome.kv_hash;
      EXPECT_EQ(digest(tail), digest(*generated[i])) << i << " chunk " << chunk;
    }
  }
}

TEST_P(Invariance, ManyAnswersOfOnePromptEqualSingleRequests) {
  auto one = requests(4, false)[2];
  one.prompt.resize(150, 17);
  std::vector<SequenceRequest> many(5, one);
  for (size_t i = 0; i < many.size(); ++i) many[i].seed = numerics::mix(7, i);
  Counters counters;
  const auto together = digests(run(cell(2, 5, kAll, 0, true), many, &counters));
  EXPECT_EQ(counters.prefix_hit_tokens, 4u * 128u);
  for (size_t i = 0; i < many.size(); ++i) EXPECT_EQ(digests(run(cell(1, 1, kAll), {many[i]}))[0], together[i]);
}

TEST_P(Invariance, ANeighbourThatIsCancelledOrOtherIsNotFelt) {
  const auto all = requests(4, false);
  const auto expected = digests(run(cell(1, 1, kAll), all));
  const auto model = tiny().load(GetParam(), 2, kernels::best_kernel_set());
  Options options;
  options.max_batch = 4;
  options.prefill_chunk = 40;
  auto engine = Engine::create(*model, options).value();
  Answer answers[4];
  SequenceId ids[4];
  for (int i = 0; i < 4; ++i) ids[i] = engine->submit(all[i], &answers[i]).value();
  for (int i = 0; i < 3; ++i) engine->step();
  engine->cancel(ids[1]);
  while (engine->step()) {
  }
  EXPECT_EQ(engine->counters().cancelled, 1u);
  for (const int i : {0, 2, 3}) EXPECT_EQ(digest(answers[i]), expected[i]);
}

TEST_P(Invariance, Speculation) {
  auto all = requests(emulated() ? 3 : 10, false);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].sampling.max_tokens = emulated() ? 12 : 40;
    all[i].prompt.resize(std::min<size_t>(all[i].prompt.size(), emulated() ? 30 : 140));
    if (i % 2 == 0) all[i].sampling.temperature = 0.0f;
  }
  const Answers plain = run(cell(1, 1, kAll), all);
  const auto expected = digests(plain);
  std::vector<std::vector<int32_t>> answers;
  for (const auto& answer : plain) answers.push_back(answer->ids());
  const Numerics other = GetParam() == Numerics::kFma32 ? Numerics::kInt8 : Numerics::kFma32;
  const auto draft = tiny().load(other, 2, kernels::best_kernel_set());
  struct Way {
    int threads, batch, chunk, preempt, max_draft;
    SpeculationOptions::Kind kind;
  };
  constexpr auto kScripted = SpeculationOptions::Kind::kOther, kDraft = SpeculationOptions::Kind::kDraft;
  const Way ways[] = {{1, 1, kAll, 0, 8, kScripted}, {2, 5, 64, 7, 3, kScripted}, {3, 3, 16, 0, 1, kScripted},
                      {1, 1, kAll, 0, 8, kDraft},    {2, 5, 64, 7, 3, kDraft},    {3, 3, 16, 0, 1, kDraft}};
  for (const Way& way : ways) {
    if (brief() && way.batch != 5) continue;
    SCOPED_TRACE(::testing::Message() << "batch " << way.batch << " max_draft " << way.max_draft << " kind "
                                      << static_cast<int>(way.kind));
    Cell guessing = cell(way.threads, way.batch, way.chunk, 0, true, way.preempt);
    guessing.speculation.kind = way.kind;
    guessing.speculation.max_draft = way.max_draft;
    guessing.speculation.draft_model = draft.get();
    guessing.speculation.eager = true;
    if (way.kind == kScripted) {
      guessing.speculation.drafter =
          std::make_shared<testing::ScriptedDrafter>(testing::ScriptedDrafter::Manner::kMixed, answers, 211);
    }
    Counters counters;
    EXPECT_EQ(digests(run(guessing, all, &counters)), expected);
    EXPECT_GT(counters.accepted_tokens, 0u);
    // The same weights in another arithmetic may be right throughout.
    if (way.kind == kScripted) {
      EXPECT_GT(counters.drafted_tokens, counters.accepted_tokens);
    } else {
      EXPECT_GT(counters.draft_steps, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, Invariance, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& tested) { return std::string(numerics::short_name(tested.param)); });

// The negative control: linear layers that round differently where they have more than one row, as ordinary engines'
// do.
void free_order_linear(const kernels::LinearCall& call, const kernels::LinearTile& tile) {
  kernels::best_kernel_set().linear(call, tile);
  if (tile.row_end - tile.row_begin < 2) return;
  const int end = std::min(tile.panel_end * kernels::kPanel, call.shape->n);
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    for (int n = tile.panel_begin * kernels::kPanel; n < end; ++n) call.y[row * call.y_stride + n] *= 1.0f + 0x1p-18f;
  }
}

TEST(NegativeControl, TheSameComparisonFailsOnAKernelThatKnowsItsBatch) {
  kernels::KernelSet set = kernels::best_kernel_set();
  set.linear = free_order_linear;
  const auto all = requests(7, false);
  EXPECT_NE(digests(run({Numerics::kFma32, 1, 7, kAll}, all, nullptr, set)),
            digests(run({Numerics::kFma32, 1, 1, 1}, all, nullptr, set)));
}

}  // namespace
}  // namespace eadem::engine
