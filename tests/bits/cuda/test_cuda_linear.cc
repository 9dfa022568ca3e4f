// Linear layers of the CUDA device give the bits of this machine's CPU sets, for every number of rows and every plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "bits/cuda/device_memory.h"
#include "bits/linear/harness.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/linear/stream.h"
#include "numerics/layer.h"
#include "numerics/operand.h"

namespace eadem::kernels::testing {
namespace {

using cuda::LinearPlan;
using test::DeviceArray;

// A layer whose weights and rows lie in device memory.
class OnDevice {
 public:
  explicit OnDevice(const Layer& layer)
      : layer_(layer),
        weights_(packed(layer)),
        x_(layer.x),
        bias_(layer.bias),
        y_(y_values()),
        scratch_(cuda::linear_scratch_bytes(layer.shape, layer.rows)) {}

  // y as evaluate() begins it, of which the first `rows` rows are then computed; plan: null for the device's own.
  std::vector<float> run(int rows, const LinearPlan* plan) const {
    std::vector<float> y(y_values());
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 1009) - 504.25f;
    y_.put(y);
    test::cuda_ok(cudaMemset(scratch_.data(), 0xff, scratch_.bytes()));
    const LinearCall call = make_call();
    if (plan == nullptr) {
      cuda::linear(nullptr, facts_, call, rows, scratch_.data());
    } else {
      cuda::linear_planned(nullptr, *plan, call, rows, facts_.processors, scratch_.data());
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << describe(layer_, 0) << " of rows " << rows;
    return y_.host();
  }

  // What the device's own way launches.
  std::vector<test::Launched> launched(int rows) const {
    const LinearCall call = make_call();
    return test::launched_by([&](cudaStream_t stream) { cuda::linear(stream, facts_, call, rows, scratch_.data()); });
  }

 private:
  LinearCall make_call() const {
    const LinearShape& s = layer_.shape;
    LinearCall call;
    call.shape = &s, call.weights = weights_.data();
    call.x.operands = x_.data();
    call.bias = layer_.bias.empty() ? nullptr : bias_.data();
    call.y = y_.data(), call.y_stride = s.n + kPast, call.add_to_y = layer_.residual;
    return call;
  }
  static std::vector<std::byte> packed(const Layer& layer) {
    KernelSet set{};
    set.linear_bytes = cuda::linear_bytes, set.pack_operands = cuda::pack_operands, set.pack_int8 = cuda::pack_int8;
    return pack(set, layer);
  }
  size_t y_values() const { return static_cast<size_t>(layer_.rows) * static_cast<size_t>(layer_.shape.n + kPast); }

  const Layer& layer_;
  DeviceFacts facts_ = test::device_facts();
  DeviceArray<std::byte> weights_;
  DeviceArray<uint16_t> x_;
  DeviceArray<float> bias_, y_;
  DeviceArray<std::byte> scratch_;
};

// The operands of SwiGLU of the first `rows` rows of a layer of gates and ups, in rows of n / 2 + kPast; kUntouched
// where nothing is written. plan: null for the device's own. kernels: what was launched.
constexpr uint16_t kUntouched = 0xbeef;

std::vector<uint16_t> run_gated(const Layer& layer, int rows, const LinearPlan* plan,
                                std::vector<test::Launched>* kernels = nullptr) {
  const LinearShape& s = layer.shape;
  const DeviceFacts facts = test::device_facts();
  const int64_t stride = s.n / 2 + kPast;
  KernelSet set{};
  set.linear_bytes = cuda::linear_bytes, set.pack_operands = cuda::pack_operands;
  const DeviceArray<std::byte> weights(pack(set, layer));
  const DeviceArray<uint16_t> x(layer.x);
  const DeviceArray<uint16_t> y(std::vector<uint16_t>(static_cast<size_t>(layer.rows * stride), kUntouched));
  const DeviceArray<uint8_t> bad(static_cast<size_t>(layer.rows));
  LinearCall call;
  call.shape = &s, call.weights = weights.data();
  call.x.operands = x.data();
  const SwigluCall swiglu{y.data(), stride, reinterpret_cast<bool*>(bad.data())};
  const auto run = [&](cudaStream_t stream) {
    if (plan == nullptr) {
      cuda::linear_swiglu(stream, facts, call, swiglu, rows);
    } else {
      cuda::linear_stream_gated(stream, *plan, call, swiglu, rows, facts.processors);
    }
  };
  run(nullptr);
  test::finish_kernels();
  if (kernels != nullptr) *kernels = test::launched_by(run);
  EXPECT_EQ(bad.host(), std::vector<uint8_t>(static_cast<size_t>(layer.rows)));
  return y.host();
}

// The same of a CPU set's sums; swapped: with the halves of the layer exchanged.
std::vector<uint16_t> expect_gated(const Layer& layer, const std::vector<float>& sums, int rows, bool swapped = false) {
  const int half = layer.shape.n / 2, stride = half + kPast;
  std::vector<uint16_t> y(static_cast<size_t>(layer.rows * stride), kUntouched);
  for (int row = 0; row < rows; ++row) {
    const float* gates = &sums[static_cast<size_t>(row) * static_cast<size_t>(layer.shape.n + kPast)];
    const float* ups = gates + half;
    if (swapped) std::swap(gates, ups);
    for (int i = 0; i < half; ++i) {
      y[static_cast<size_t>(row * stride + i)] = numerics::bf16_operand(numerics::swiglu(gates[i], ups[i]));
    }
  }
  return y;
}

std::string describe_plan(const LinearPlan& p) {
  return " plan rows=" + std::to_string(p.rows) + " warpgroups=" + std::to_string(p.warpgroups) +
         " outputs=" + std::to_string(p.outputs) + " split=" + std::to_string(p.split) +
         " residents=" + std::to_string(p.residents) + " row_groups=" + std::to_string(p.row_groups) +
         " own_rows=" + std::to_string(p.own_rows);
}

// How many values differ.
size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return count;
}

class CudaLinear : public ::testing::TestWithParam<Numerics> {};

TEST_P(CudaLinear, RandomShapesAndPlans) {
  Draw draw(20261130);
  for (int i = 0; i < 96; ++i) {
    const int group = draw.chance(2) ? 128 : 32;
    const int n = 1 + draw.below(draw.chance(3) ? 700 : 150), k = 1 + draw.below(draw.chance(3) ? 2100 : 700);
    const LinearShape shape = make_shape(GetParam(), n, k, 1 << draw.below(4), group, draw.chance(2));
    const auto family = static_cast<Family>(i % kFamilies);
    const Layer layer = random_layer(shape, 1 + draw.below(80), family, draw.chance(2), draw.chance(2), draw);
    const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
    const OnDevice device(layer);
    EXPECT_EQ(differing(device.run(layer.rows, nullptr), expected), 0u) << describe(layer, family);
    const std::vector<LinearPlan> plans = cuda::legal_linear_plans(shape, layer.rows);
    for (int j = 0; j < 6; ++j) {
      const LinearPlan& plan = plans[static_cast<size_t>(draw.below(static_cast<int>(plans.size())))];
      EXPECT_EQ(differing(device.run(layer.rows, &plan), expected), 0u)
          << describe(layer, family) << describe_plan(plan);
    }
  }
}

// Each number of rows: the same bits for the rows it has, and nothing written past them.
TEST_P(CudaLinear, EveryNumberOfRows) {
  constexpr int kRows = 300;
  Draw draw(7);
  for (const int shards : {1, 8}) {
    const LinearShape shape = make_shape(GetParam(), 200, shards == 1 ? 352 : 1024, shards, 32, true);
    const Layer layer = random_layer(shape, kRows, kNarrow, true, shards == 8, draw);
    const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
    const OnDevice device(layer);
    for (int rows = 1; rows <= kRows; ++rows) {
      std::vector<float> wanted = expected;
      for (size_t i = static_cast<size_t>(rows) * static_cast<size_t>(shape.n + kPast); i < wanted.size(); ++i) {
        wanted[i] = static_cast<float>(i % 1009) - 504.25f;
      }
      ASSERT_EQ(differing(device.run(rows, nullptr), wanted), 0u) << describe(layer, kNarrow) << " of rows " << rows;
    }
  }
}

TEST_P(CudaLinear, EveryPlan) {
  Draw draw(8);
  for (const int shards : {1, 2, 4, 8}) {
    for (const int group : {32, 128}) {
      if (group == 128 && GetParam() != Numerics::kInt8) continue;
      const LinearShape shape = make_shape(GetParam(), 333, group == 32 ? 3840 : 4096, shards, group, shards % 4 == 0);
      ASSERT_EQ(shape.shards, shards);
      const Layer layer = random_layer(shape, 37, kWide, true, true, draw);
      const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
      const OnDevice device(layer);
      for (const LinearPlan& plan : cuda::legal_linear_plans(shape, layer.rows)) {
        ASSERT_EQ(differing(device.run(layer.rows, &plan), expected), 0u)
            << describe(layer, kWide) << describe_plan(plan);
      }
    }
  }
}

// Shapes of models: long chains, many items a CTA.
TEST_P(CudaLinear, ShapesOfModels) {
  Draw draw(9);
  const struct {
    int n, k, shards, rows;
  } shapes[] = {{1536, 4096, 1, 5},  {640, 4096, 8, 64}, {768, 12288, 8, 3}, {576, 576, 2, 33},   {49152, 576, 1, 2},
                {1536, 4096, 1, 1},  {640, 4096, 8, 1},  {992, 4096, 1, 32}, {1040, 4096, 8, 17}, {1040, 4096, 8, 33},
                {800, 12288, 8, 64}, {992, 4096, 1, 64}, {4400, 8224, 1, 3}, {2500, 8448, 8, 5}};
  for (const auto& shape : shapes) {
    const int group = shape.k % 128 == 0 ? 128 : 32;
    const Layer layer = random_layer(make_shape(GetParam(), shape.n, shape.k, shape.shards, group, false), shape.rows,
                                     kNarrow, false, shape.shards > 1, draw);
    EXPECT_EQ(differing(OnDevice(layer).run(layer.rows, nullptr), evaluate(best_kernel_set(), layer, nullptr)), 0u)
        << describe(layer, kNarrow);
  }
}

// CTAs that quantise their rows by themselves, under every plan that can; where the device's own plan has it, no kernel
// does it before.
TEST_P(CudaLinear, RowsAreQuantisedInPlace) {
  if (GetParam() != Numerics::kInt8) return;
  constexpr int kRows = 16;
  Draw draw(10);
  const DeviceFacts facts = test::device_facts();
  for (const int shards : {1, 2, 4, 8}) {
    const LinearShape shape = make_shape(Numerics::kInt8, 333, 4096, shards, 128, false);
    Layer layer = random_layer(shape, kRows, kWide, true, true, draw);
    const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
    const OnDevice device(layer);
    for (int rows = 1; rows <= kRows; ++rows) {
      std::vector<float> wanted = expected;
      for (size_t i = static_cast<size_t>(rows) * static_cast<size_t>(shape.n + kPast); i < wanted.size(); ++i) {
        wanted[i] = static_cast<float>(i % 1009) - 504.25f;
      }
      const bool in_place = rows == 1 || shards > 1;  // what is chosen; the plans below are all that can
      EXPECT_EQ(cuda::plan_linear(shape, rows, facts.processors).own_rows > 0, in_place);
      EXPECT_EQ(device.launched(rows).size() == 1u, in_place);
      ASSERT_EQ(differing(device.run(rows, nullptr), wanted), 0u) << describe(layer, kWide) << " of rows " << rows;
      if (rows != 1 && rows != 5 && rows != 8 && rows != 11 && rows != 16) continue;
      int plans = 0;
      for (const LinearPlan& plan : cuda::legal_linear_plans(shape, rows)) {
        if (plan.own_rows == 0) continue;
        ++plans;
        ASSERT_EQ(differing(device.run(rows, &plan), wanted), 0u)
            << describe(layer, kWide) << describe_plan(plan) << " of rows " << rows;
      }
      EXPECT_GT(plans, 8);
    }
    EXPECT_GT(device.launched(kRows + 1).size(), 1u);
    // The control: the largest operand with another sign.
    *std::max_element(layer.x.begin(), layer.x.end(), [](int a, int b) { return (a & 0x7fff) < (b & 0x7fff); }) ^=
        0x8000;
    EXPECT_GT(differing(OnDevice(layer).run(kRows, nullptr), expected), 0u);
  }
}

// Warpgroups that share out rows and outputs, a warp for the weights beside one for the activations: shapes of models,
// every number of rows of a block.
TEST_P(CudaLinear, WarpgroupsOfManyOutputs) {
  if (GetParam() != Numerics::kInt8) return;
  Draw draw(11);
  const struct {
    int n, k, shards;
  } shapes[] = {{6144, 1152, 1}, {24640, 384, 1}, {51000, 256, 1}, {4096, 6144, 8}, {4000, 12288, 8}, {700, 640, 1}};
  for (const auto& shape : shapes) {
    const Layer layer = random_layer(make_shape(GetParam(), shape.n, shape.k, shape.shards, 128, shape.n == 700), 64,
                                     kNarrow, false, shape.shards > 1, draw);
    const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
    const OnDevice device(layer);
    for (const int rows : {17, 32, 33, 47, 64}) {
      const LinearPlan plan = cuda::plan_linear(layer.shape, rows, test::device_facts().processors);
      EXPECT_GT(plan.warpgroups, 0);
      EXPECT_EQ(cuda::linear_producers(layer.shape, plan), 2);
      std::vector<float> wanted = expected;
      for (size_t i = static_cast<size_t>(rows) * static_cast<size_t>(shape.n + kPast); i < wanted.size(); ++i) {
        wanted[i] = static_cast<float>(i % 1009) - 504.25f;
      }
      ASSERT_EQ(differing(device.run(rows, nullptr), wanted), 0u) << describe(layer, kNarrow) << " of rows " << rows;
    }
  }
}

// The control: other orders of the same additions are told apart.
TEST_P(CudaLinear, OtherTreesDiffer) {
  Draw draw(12);
  Layer layer = random_layer(make_shape(GetParam(), 48, 1024, 8, 128, false), 4, kNarrow, false, false, draw);
  const std::vector<float> expected = evaluate(best_kernel_set(), layer, nullptr);
  layer.shape.shards = 4;
  EXPECT_GT(differing(OnDevice(layer).run(layer.rows, nullptr), expected), 0u);
}

// SwiGLU inside a layer of gates and ups: every number of rows of a block, items that cross a border of tiles, a last
// item that is not whole, and several items a CTA.
TEST(CudaGated, EveryNumberOfRows) {
  Draw draw(13);
  const struct {
    int n, k, step;
  } shapes[] = {{256, 352, 1}, {1280, 1024, 7}, {512, 4096, 21}, {24576, 96, 31}};
  for (const auto& shape : shapes) {
    const Layer layer =
        random_layer(make_shape(Numerics::kMma16, shape.n, shape.k, 1, 128, false), 64, kNarrow, false, false, draw);
    const std::vector<float> sums = evaluate(best_kernel_set(), layer, nullptr);
    ASSERT_TRUE(cuda::fuses_swiglu(test::device_facts(), layer.shape, 64));
    for (int rows = 1; rows <= 64; rows += shape.step) {
      std::vector<test::Launched> kernels;
      ASSERT_EQ(run_gated(layer, rows, nullptr, &kernels), expect_gated(layer, sums, rows))
          << shape.n << " rows " << rows;
      ASSERT_EQ(kernels.size(), 1u);
      const LinearPlan plan = cuda::plan_gated(layer.shape, rows, test::device_facts().processors);
      EXPECT_EQ(kernels[0].threads, static_cast<unsigned>(plan.warpgroups == 0 ? plan.outputs * 2 + 32 : 288));
    }
    // The control: gates are told from ups.
    EXPECT_NE(run_gated(layer, 5, nullptr), expect_gated(layer, sums, 5, true));
  }
}

TEST(CudaGated, EveryPlan) {
  Draw draw(14);
  const Layer layer =
      random_layer(make_shape(Numerics::kMma16, 768, 416, 1, 128, false), 37, kWide, false, false, draw);
  const std::vector<uint16_t> expected = expect_gated(layer, evaluate(best_kernel_set(), layer, nullptr), 37);
  int plans = 0;
  for (LinearPlan plan : cuda::legal_linear_plans(layer.shape, 37)) {
    if (plan.split != 1 || (plan.warpgroups == 0 ? plan.outputs % 32 != 0 : plan.warpgroups != 2)) continue;
    ASSERT_EQ(run_gated(layer, 37, &plan), expected) << describe_plan(plan);
    ++plans;
  }
  EXPECT_GT(plans, 40);
}

INSTANTIATE_TEST_SUITE_P(AllNumerics, CudaLinear, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

}  // namespace
}  // namespace eadem::kernels::testing
