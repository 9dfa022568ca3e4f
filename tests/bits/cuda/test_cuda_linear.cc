// Linear layers of the CUDA device give the bits of this machine's CPU sets, for every number of rows and every plan.
#include <gtest/gtest.h>

#include "bits/cuda/device_memory.h"
#include "bits/linear/harness.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/linear/stream.h"

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
    const LinearShape& s = layer_.shape;
    std::vector<float> y(y_values());
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 1009) - 504.25f;
    y_.put(y);
    test::cuda_ok(cudaMemset(scratch_.data(), 0xff, scratch_.bytes()));
    LinearCall call;
    call.shape = &s, call.weights = weights_.data();
    call.x.operands = x_.data();
    call.bias = layer_.bias.empty() ? nullptr : bias_.data();
    call.y = y_.data(), call.y_stride = s.n + kPast, call.add_to_y = layer_.residual;
    if (plan == nullptr) {
      cuda::linear(nullptr, facts_, call, rows, scratch_.data());
    } else {
      cuda::linear_planned(nullptr, *plan, call, rows, facts_.processors, scratch_.data());
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << describe(layer_, 0) << " of rows " << rows;
    return y_.host();
  }

 private:
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

std::string describe_plan(const LinearPlan& p) {
  return " plan rows=" + std::to_string(p.rows) + " warpgroups=" + std::to_string(p.warpgroups) +
         " outputs=" + std::to_string(p.outputs) + " split=" + std::to_string(p.split) +
         " residents=" + std::to_string(p.residents);
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
    const std::vector<LinearPlan> plans = cuda::legal_linear_plans(shape);
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
      for (const LinearPlan& plan : cuda::legal_linear_plans(shape)) {
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
  } shapes[] = {{1536, 4096, 1, 5}, {640, 4096, 8, 64}, {768, 12288, 8, 3}, {576, 576, 2, 33}, {49152, 576, 1, 2}};
  for (const auto& shape : shapes) {
    const int group = shape.k % 128 == 0 ? 128 : 32;
    const Layer layer = random_layer(make_shape(GetParam(), shape.n, shape.k, shape.shards, group, false), shape.rows,
                                     kNarrow, false, shape.shards > 1, draw);
    EXPECT_EQ(differing(OnDevice(layer).run(layer.rows, nullptr), evaluate(best_kernel_set(), layer, nullptr)), 0u)
        << describe(layer, kNarrow);
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

INSTANTIATE_TEST_SUITE_P(AllNumerics, CudaLinear, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

}  // namespace
}  // namespace eadem::kernels::testing
