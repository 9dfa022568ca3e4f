// Embeddings of a real, small model: the same bits under every numerics' kernel sets, in every cut of the work, and
// close to what double precision makes of the same hidden states.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "engine/engine.h"
#include "numerics/operand.h"
#include "support/brief.h"
#include "support/engine_run.h"
#include "support/tiny_llama.h"
#include "weights/checkpoint.h"

namespace eadem::engine {
namespace {

using numerics::Numerics;
using testing::Answers;
using testing::digests;
using testing::run_all;

constexpr int kHidden = 72;

const weights::Checkpoint& checkpoint() {
  static const test::TempDirectory folder;
  static const weights::Checkpoint opened = [] {
    testing::write_tiny_llama(folder.path());
    return weights::Checkpoint::open(folder.path()).value();
  }();
  return opened;
}

std::vector<SequenceRequest> requests(int longest) {
  std::mt19937 rng(8);
  std::vector<SequenceRequest> all;
  for (int i = 0; i < 6; ++i) {
    SequenceRequest r;
    r.prompt.resize(static_cast<size_t>(1 + (longest - 1) * i / 5));
    for (int32_t& t : r.prompt) t = static_cast<int32_t>(rng() % 211);
    r.pooling = i % 2 == 1 ? Pooling::kMean : Pooling::kLast;
    if (i == 2) r.pooling = Pooling::kNone;
    r.sampling.max_tokens = 30;
    r.sampling.logprobs = 2;
    r.kv_hash = true;
    all.push_back(std::move(r));
  }
  return all;
}

struct Cut {
  int threads = 1, batch = 1, chunk = 2000, blocks = 0;
  bool prefix = false;
};

Answers run(Numerics numerics, const Cut& cut, const std::vector<SequenceRequest>& asked,
            const kernels::KernelSet& set = kernels::best_kernel_set(), Counters* counters = nullptr,
            model::TraceSink* trace = nullptr) {
  model::ModelOptions model_options;
  model_options.numerics = numerics;
  model_options.threads = cut.threads;
  model_options.kernels = &set;
  model_options.max_rows = 2000;
  const auto model = model::Model::load(checkpoint(), model_options).value();
  Options options;
  options.max_batch = cut.batch;
  options.prefill_chunk = cut.chunk;
  options.kv_blocks = cut.blocks;
  options.prefix_cache = cut.prefix;
  auto engine = Engine::create(*model, options).value();
  engine->set_trace(trace);
  const uint64_t calls = set.calls->load();
  Answers answers = run_all(*engine, asked);
  EXPECT_GT(set.calls->load(), calls);
  for (const auto& answer : answers) EXPECT_EQ(answer->outcome.error, "");
  if (counters != nullptr) *counters = engine->counters();
  return answers;
}

class Embedding : public ::testing::TestWithParam<Numerics> {};

TEST_P(Embedding, BatchChunkThreadsPrefixPreemptionAndKernelSets) {
  const auto asked = requests(GetParam() == Numerics::kMma16 ? 150 : testing::brief() ? 200 : 600);
  const auto expected = digests(run(GetParam(), {}, asked));
  Counters counters;
  const Cut cuts[] = {{2, 6, 2000, 0, false}, {3, 3, 64, 0, false}, {1, 6, 7, 0, true}};
  for (const Cut& cut : cuts) {
    if (testing::brief() && cut.threads != 3) continue;
    EXPECT_EQ(digests(run(GetParam(), cut, asked, kernels::best_kernel_set(), &counters)), expected) << cut.chunk;
    EXPECT_GT(counters.mixed_steps, 0u);
    if (cut.chunk < 100) {
      EXPECT_GT(counters.chunked_prompts, 0u);
    }
  }
  int sets = 0;
  for (const auto* set : kernels::all_kernel_sets()) {
    if (!set->supported()) continue;
    EXPECT_EQ(digests(run(GetParam(), {2, 6, 100, 0, true}, asked, *set)), expected) << set->name;
    ++sets;
  }
  EXPECT_GE(sets, 1);
}

INSTANTIATE_TEST_SUITE_P(Numerics, Embedding, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& tested) { return std::string(numerics::short_name(tested.param)); });

// Keeps the final hidden state of each position of a single sequence.
class FinalStates final : public model::TraceSink {
 public:
  void record(const model::Batch& batch, int row, int, std::string_view op, std::span<const std::byte> bytes) override {
    if (op != "final_norm") return;
    auto& state = states[batch.rows[static_cast<size_t>(row)].position];
    state.resize(kHidden);
    std::memcpy(state.data(), bytes.data(), kHidden * sizeof(uint16_t));
  }
  std::map<int64_t, std::vector<uint16_t>> states;
};

TEST(EmbeddingAccuracy, EqualsTheMeanOfTheTracedStatesInDoublePrecision) {
  auto asked = requests(600);
  asked = {asked[5]};
  ASSERT_EQ(asked[0].pooling, Pooling::kMean);
  FinalStates trace;
  const Answers answers = run(Numerics::kFma32, {1, 1, 50}, asked, kernels::best_kernel_set(), nullptr, &trace);
  ASSERT_EQ(trace.states.size(), 600u);
  double mean[kHidden] = {}, square = 0;
  for (const auto& [position, state] : trace.states) {
    for (int i = 0; i < kHidden; ++i) {
      mean[i] += static_cast<double>(numerics::operand_value(state[static_cast<size_t>(i)])) / 600;
    }
  }
  for (const double x : mean) square += x * x;
  for (int i = 0; i < kHidden; ++i) {
    const double got = static_cast<double>(answers[0]->outcome.embedding[static_cast<size_t>(i)]);
    EXPECT_NEAR(got, mean[i] / std::sqrt(square), 1e-6) << i;
  }
}

// The negative control: linear layers that round differently where they have more than one row.
void free_order_linear(const kernels::LinearCall& call, const kernels::LinearTile& tile) {
  kernels::best_kernel_set().linear(call, tile);
  if (tile.row_end - tile.row_begin < 2) return;
  const int end = std::min(tile.panel_end * kernels::kPanel, call.shape->n);
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    for (int n = tile.panel_begin * kernels::kPanel; n < end; ++n) call.y[row * call.y_stride + n] *= 1.0f + 0x1p-8f;
  }
}

TEST(EmbeddingControl, TheSameComparisonFailsOnAKernelThatKnowsItsBatch) {
  kernels::KernelSet set = kernels::best_kernel_set();
  set.linear = free_order_linear;
  for (auto r : requests(100)) {
    if (r.pooling == Pooling::kNone || r.prompt.size() < 2) continue;
    r.kv_hash = false;  // the embedding itself must show it
    EXPECT_NE(digests(run(Numerics::kFma32, {1, 1, 100}, {r}, set)),
              digests(run(Numerics::kFma32, {1, 1, 1}, {r}, set)));
  }
}

}  // namespace
}  // namespace eadem::engine
