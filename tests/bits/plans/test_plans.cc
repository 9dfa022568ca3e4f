// Plans move whole trees: every legal cut of a linear layer and of attention gives the same bytes, on every set of this
// machine.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bits/plans/model_rows.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "support/brief.h"

namespace eadem {
namespace {

using kernels::KernelSet;
using numerics::Numerics;

std::vector<const KernelSet*> sets() {
  std::vector<const KernelSet*> found;
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (set->supported()) found.push_back(set);
  }
  return found;
}

// Operands over many magnitudes: sums whose order shows.
std::vector<uint16_t> random_operands(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint16_t> operands(count);
  for (auto& operand : operands) {
    const float sign = random() & 1 ? 1.0f : -1.0f;
    const float value = sign * (1.0f + static_cast<float>(random() % 128) / 128.0f) *
                        std::ldexp(1.0f, static_cast<int>(random() % 24) - 12);
    operand = numerics::bf16_operand(value);
  }
  return operands;
}

TEST(Plans, TilesCoverEveryOutputOnce) {
  for (const int n : {1, 16, 17, 100, 1536}) {
    kernels::LinearShape shape;
    shape.n = n, shape.k = shape.k_padded = 576;
    for (const int rows : {1, 2, 7, 64, 300, 1000}) {
      auto plans = plan::legal_linear_plans(shape, rows);
      for (const int threads : {1, 2, 3, 16}) plans.push_back(plan::plan_linear(shape, rows, threads));
      for (const auto& plan : plans) {
        std::vector<int> covered(static_cast<size_t>(shape.panels()) * rows, 0);
        for (int i = 0; i < plan::tile_count(shape, rows, plan); ++i) {
          const auto tile = plan::tile_at(shape, rows, plan, i);
          for (int panel = tile.panel_begin; panel < tile.panel_end; ++panel) {
            for (int row = tile.row_begin; row < tile.row_end; ++row)
              ++covered[static_cast<size_t>(panel) * rows + row];
          }
        }
        for (const int times : covered) ASSERT_EQ(times, 1) << "n " << n << " rows " << rows;
      }
    }
  }
}

// A set that fuses SwiGLU from some rows on takes every tile of the plan, the short last one too.
TEST(Plans, ShortLastTilesHaveTheRowsThatAreLeft) {
  kernels::LinearShape shape;
  shape.n = 64, shape.k = shape.k_padded = 8192;
  for (const int rows : {1, 17, 65, 544, 4097}) {
    for (const int threads : {1, 2, 3, 32}) {
      const plan::LinearPlan plan = plan::plan_linear(shape, rows, threads);
      const auto last = plan::tile_at(shape, rows, plan, plan::tile_count(shape, rows, plan) - 1);
      EXPECT_EQ(plan::shortest_rows(rows, plan), last.row_end - last.row_begin) << rows << " rows, " << threads;
    }
  }
  EXPECT_EQ(plan::shortest_rows(4097, plan::plan_linear(shape, 4097, 1)), 1);
}

std::vector<float> run_linear(const ops::Linear& linear, ThreadPool& pool, const plan::LinearPlan& plan,
                              const std::vector<uint16_t>& x, int rows) {
  std::vector<float> y(static_cast<size_t>(rows) * linear.shape().n, 0.5f);
  linear.run(pool, plan, x.data(), rows, y.data(), linear.shape().n, true);
  return y;
}

TEST(Plans, EveryLinearPlanGivesTheSameBytes) {
  constexpr int kN = 83, kK = 576, kRows = 37;
  const auto operands = random_operands(static_cast<size_t>(kN) * kK, 3);
  TensorView weight{
      "w", DType::kBF16, {kN, kK}, reinterpret_cast<const std::byte*>(operands.data()), operands.size() * 2};
  const auto x = random_operands(static_cast<size_t>(kRows) * kK, 4);
  for (const KernelSet* set : sets()) {
    for (const Numerics numerics : numerics::kAllNumerics) {
      for (const bool row_parallel : {false, true}) {
        ThreadPool one(1), three(3);
        auto linear = ops::Linear::pack(*set, numerics, row_parallel, {&weight, nullptr, {}}, one);
        ASSERT_TRUE(linear.ok());
        const uint64_t before = set->calls->load();
        const auto want = run_linear(linear.value(), one, {kN, kRows}, x, kRows);
        for (const auto& plan : plan::legal_linear_plans(linear.value().shape(), kRows)) {
          const auto got = run_linear(linear.value(), three, plan, x, kRows);
          ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0)
              << set->name << " " << numerics::short_name(numerics) << " panels " << plan.panels << " rows "
              << plan.rows;
        }
        EXPECT_GT(set->calls->load(), before);
        // The control: the shard tree is another sum than the single chain (K = 576 leaves two shards of whole leaves).
        if (row_parallel && numerics == Numerics::kFma32) {
          auto chain = ops::Linear::pack(*set, numerics, false, {&weight, nullptr, {}}, one);
          ASSERT_GT(linear.value().shape().shards, 1);
          EXPECT_NE(run_linear(chain.value(), one, {kN, kRows}, x, kRows), want);
        }
      }
    }
  }
}

TEST(Plans, EveryAttentionPlanGivesTheSameBytes) {
  for (const KernelSet* set : sets()) {
    for (const Numerics tree : {Numerics::kFma32, Numerics::kMma16}) {
      for (const int64_t window : {int64_t{0}, int64_t{1100}}) {
        const test::AttentionInput input(*set, tree, window, {1, 40, 3}, {2500, 1000, 64});
        const uint64_t before = set->calls->load();
        const auto want = input.run(1, {1, false});
        for (const int tile_rows : {1, 2, 5, 16, 64}) {
          if (testing::brief() && tile_rows != 2 && tile_rows != 64) continue;
          for (const bool parallel : {false, true}) {
            for (const int threads : {1, 3}) {
              if (testing::brief() && threads == 1) continue;
              EXPECT_EQ(input.run(threads, {tile_rows, parallel}), want)
                  << set->name << " " << numerics::short_name(tree) << " tile " << tile_rows << " parallel "
                  << parallel;
            }
          }
        }
        EXPECT_GT(set->calls->load(), before);
        const test::AttentionInput other(*set, tree, window == 0 ? 1100 : 0, {1, 40, 3}, {2500, 1000, 64});
        EXPECT_NE(other.run(1, {1, false}), want) << "the control: another window is another result";
      }
    }
  }
}

}  // namespace
}  // namespace eadem
