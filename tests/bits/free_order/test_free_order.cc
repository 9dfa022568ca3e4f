// The free-order kernel sets are a control: their bits must depend on batch and threads, and their values must be as
// good as the contract's.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "bits/linear/harness.h"
#include "core/thread_pool.h"
#include "engine/engine.h"
#include "kernels/free/free_sets.h"
#include "plan/linear_plan.h"
#include "support/brief.h"
#include "support/engine_run.h"
#include "support/tiny_llama.h"
#include "weights/checkpoint.h"

namespace eadem::kernels::testing {
namespace {

// The best set of each twin: those that share one have the same bits (tests/bits/linear).
std::vector<const KernelSet*> sets_with_twins() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : available_sets()) {
    const KernelSet* twin = free_order_twin(*set);
    const auto shares = [&](const KernelSet* other) { return free_order_twin(*other) == twin; };
    if (twin != nullptr && std::none_of(sets.begin(), sets.end(), shares)) sets.push_back(set);
  }
  return sets;
}

// y [rows][n] of the tiles that so many threads would take, or of single rows.
std::vector<float> outputs(const KernelSet& set, const Layer& layer, int threads, bool row_by_row) {
  const LinearShape& s = layer.shape;
  const std::vector<std::byte> packed = pack(set, layer);
  std::vector<float> y(static_cast<size_t>(layer.rows) * static_cast<size_t>(s.n));
  LinearCall call;
  call.shape = &layer.shape, call.weights = packed.data();
  call.x = {layer.x.data(), layer.xq.data(), layer.x_scale.data(), layer.x_sum.data()};
  call.bias = layer.bias.empty() ? nullptr : layer.bias.data();
  call.y = y.data(), call.y_stride = s.n;
  plan::LinearPlan plan = plan::plan_linear(s, layer.rows, threads);
  if (row_by_row) plan.rows = 1;
  const uint64_t before = *set.calls;
  const int tiles = plan::tile_count(s, layer.rows, plan);
  for (int i = 0; i < tiles; ++i) set.linear(call, plan::tile_at(s, layer.rows, plan, i));
  EXPECT_EQ(*set.calls, before + static_cast<uint64_t>(tiles));
  return y;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d, norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

class FreeOrder : public ::testing::TestWithParam<Numerics> {
 protected:
  Layer layer(int n, int k, int rows, bool minimum = false) const {
    Draw draw(static_cast<uint64_t>(n + k + rows));
    const int group = minimum ? 32 : 128;
    return random_layer(make_shape(GetParam(), n, k, 4, group, minimum), rows, kNormal, true, false, draw);
  }
};

TEST_P(FreeOrder, LinearLayersAreCloseToTheContractsInEveryShape) {
  for (const KernelSet* set : sets_with_twins()) {
    for (const int rows : {1, 2, 3, 5, 12, 13, 24, 25, 57}) {
      for (const int n : {16, 72, 200}) {
        for (const int k : {32, 96, 576, 1536}) {
          for (const bool minimum : {false, true}) {
            const Layer l = layer(n, k, rows, minimum);
            for (const int threads : {1, 3}) {
              const auto got = outputs(*free_order_twin(*set), l, threads, false);
              EXPECT_LT(distance(got, outputs(*set, l, 1, false)), 1e-6) << set->name << " " << describe(l, 0);
            }
          }
        }
      }
    }
  }
}

TEST_P(FreeOrder, LinearLayersDependOnTheRowsOfTheStepAndOnTheThreads) {
  for (const KernelSet* set : sets_with_twins()) {
    const KernelSet& twin = *free_order_twin(*set);
    EXPECT_TRUE(twin.free_order && !set->free_order);
    const Layer l = layer(2048, 1536, 24);
    const auto together = outputs(twin, l, 1, false);
    EXPECT_FALSE(same_bytes(outputs(twin, l, 1, true), together)) << set->name;
    EXPECT_FALSE(same_bytes(outputs(twin, l, 2, false), together)) << set->name;
    const auto contract = outputs(*set, l, 1, false);
    EXPECT_TRUE(same_bytes(outputs(*set, l, 1, true), contract)) << "the contract's own set, cut alike";
    EXPECT_TRUE(same_bytes(outputs(*set, l, 2, false), contract));
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, FreeOrder, ::testing::Values(Numerics::kFma32, Numerics::kInt8),
                         [](const auto& tested) { return std::string(numerics::short_name(tested.param)); });

TEST(FreeOrderSets, AreInNoListAndTheReferenceHasNone) {
  for (const KernelSet* set : all_kernel_sets()) EXPECT_FALSE(set->free_order) << set->name;
  EXPECT_FALSE(best_kernel_set().free_order);
  EXPECT_EQ(free_order_twin(*find_kernel_set("reference")), nullptr);
  EXPECT_EQ(find_kernel_set("avx2-free"), nullptr);
  EXPECT_FALSE(sets_with_twins().empty());
}

}  // namespace
}  // namespace eadem::kernels::testing

namespace eadem::engine {
namespace {

using numerics::Numerics;
using testing::Answers;
using testing::run_all;

// The logprobs of every token of five prompts, the longest past an attention split.
Answers score(Numerics numerics, const kernels::KernelSet& set, int threads, int batch, int chunk) {
  static const test::TempDirectory folder;
  static const weights::Checkpoint checkpoint = [] {
    testing::write_tiny_llama(folder.path());
    return weights::Checkpoint::open(folder.path()).value();
  }();
  model::ModelOptions model_options;
  model_options.numerics = numerics;
  model_options.threads = threads;
  model_options.kernels = &set;
  model_options.max_rows = 2000;
  const auto model = model::Model::load(checkpoint, model_options).value();
  Options options;
  options.max_batch = batch;
  options.prefill_chunk = chunk;
  auto engine = Engine::create(*model, options).value();
  std::mt19937 rng(3);
  std::vector<SequenceRequest> asked(5);
  for (size_t i = 0; i < asked.size(); ++i) {
    asked[i].prompt.resize(i == 0 ? (testing::brief() ? 200 : 1300) : 30 * i);
    for (int32_t& t : asked[i].prompt) t = static_cast<int32_t>(rng() % 211);
    asked[i].sampling.max_tokens = 0;
    asked[i].sampling.prompt_logprobs = 0;
  }
  return run_all(*engine, asked);
}

struct Difference {
  double largest = 0, mean = 0;
};

Difference difference(const Answers& a, const Answers& b) {
  Difference all;
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i]->outcome.error, "");
    EXPECT_EQ(a[i]->prompt.size(), b[i]->prompt.size());
    for (size_t t = 1; t < a[i]->prompt.size(); ++t) {
      const double x = static_cast<double>(a[i]->prompt[t].logprob), y = static_cast<double>(b[i]->prompt[t].logprob);
      all.largest = std::max(all.largest, std::fabs(x - y));
      all.mean += std::fabs(x - y);
      ++count;
    }
  }
  all.mean /= count;
  return all;
}

TEST(FreeOrderModel, LogprobsAreCloseToTheContractsAndNeverTheSameOverBatches) {
  for (const auto* set : kernels::testing::sets_with_twins()) {
    for (const Numerics numerics : {Numerics::kFma32, Numerics::kInt8}) {
      const kernels::KernelSet& twin = *kernels::free_order_twin(*set);
      const Answers contract = score(numerics, *set, 2, 5, 2000);
      const Answers batch = score(numerics, twin, 2, 5, 2000);
      const Answers alone = score(numerics, twin, 2, 1, 1);
      // A sum that rounds otherwise now and then moves an operand by a step of bfloat16, or of its int8 scale.
      for (const Answers* free : {&batch, &alone}) {
        const Difference moved = difference(*free, contract);
        EXPECT_LT(moved.largest, 0.3) << set->name << " " << numerics::short_name(numerics);
        EXPECT_LT(moved.mean, 0.03) << set->name << " " << numerics::short_name(numerics);
      }
      EXPECT_GT(difference(alone, batch).largest, 0.0) << set->name << " " << numerics::short_name(numerics);
      EXPECT_EQ(difference(score(numerics, *set, 2, 1, 1), contract).largest, 0.0);
    }
  }
}

}  // namespace
}  // namespace eadem::engine
