// Each numerics against float64: relative L2 error within what its tree's roundings allow.
#include <gtest/gtest.h>

#include "harness.h"

namespace eadem::kernels::testing {
namespace {

// The exact outputs of what the layer multiplies: operands, or int8 times scales.
std::vector<double> exact(const Layer& layer, bool quantised) {
  const LinearShape& s = layer.shape;
  std::vector<double> y;
  for (int r = 0; r < layer.rows; ++r) {
    for (int n = 0; n < s.n; ++n) {
      double sum = 0.0;
      for (int k = 0; k < s.k_padded; ++k) {
        const auto x = static_cast<size_t>(r) * s.k_padded + k, w = static_cast<size_t>(n) * s.k_padded + k;
        if (quantised) {
          sum += double{layer.x_scale[x / s.group]} * layer.xq[x] * layer.w_scale[w / s.group] * layer.wq[w];
        } else {
          sum += double{numerics::operand_value(layer.x[x])} * numerics::operand_value(layer.w[w]);
        }
      }
      y.push_back(sum);
    }
  }
  return y;
}

double relative_error(const Layer& layer, const std::vector<float>& y, const std::vector<double>& expected) {
  double error = 0.0, norm = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto n = static_cast<size_t>(layer.shape.n);
    const double difference = y[i / n * (n + kPast) + i % n] - expected[i];
    error += difference * difference, norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

Layer normal_layer(Numerics numerics, int k, int shards) {
  Draw draw(31);
  Layer layer = random_layer(make_shape(numerics, 64, k, shards, 128, false), 4, kNormal, false, false, draw);
  if (numerics != Numerics::kInt8) return layer;
  // Weights that are quantised at load, so that int8 can be compared with the operands that it stands for.
  for (size_t g = 0; g < layer.w_scale.size(); ++g) {
    const size_t at = g * static_cast<size_t>(layer.shape.group);
    layer.w_scale[g] = numerics::int8_quantise(&layer.w[at], layer.shape.group, &layer.wq[at]);
  }
  return layer;
}

// fma32 and int8 round to nearest, so their errors walk at random: measured 3e-8 to 2e-7. mma16 truncates each group's
// sum, which drifts toward zero by about a quarter of 2^-24 a group: the more shards, the shorter the chains, and the
// less of it.
double bound(const LinearShape& s) {
  return s.numerics == Numerics::kMma16 ? 1e-7 + s.k_padded / s.shards / numerics::kGroup * 0x1p-25 : 3e-7;
}

TEST(LinearAccuracy, EveryNumericsAgainstFloat64) {
  for (const KernelSet* set : available_sets()) {
    for (const Numerics numerics : numerics::kAllNumerics) {
      for (const int k : {128, 1024, 4096}) {
        for (const int shards : {1, 8}) {
          const Layer layer = normal_layer(numerics, k, shards);
          const std::vector<float> y = evaluate(*set, layer, nullptr);
          ASSERT_FALSE(y.empty());
          const double error = relative_error(layer, y, exact(layer, numerics == Numerics::kInt8));
          EXPECT_LT(error, bound(layer.shape)) << set->name << " " << describe(layer, kNormal);
          EXPECT_GT(error, 1e-9) << set->name << " " << describe(layer, kNormal);
        }
      }
    }
  }
}

// What quantisation itself costs: steps of absmax / 127, with groups of 128 normal values about 1/45 of their
// deviation, on both sides.
TEST(LinearAccuracy, Int8AgainstItsOperands) {
  const Layer layer = normal_layer(Numerics::kInt8, 1024, 1);
  const double error = relative_error(layer, evaluate(best_kernel_set(), layer, nullptr), exact(layer, false));
  EXPECT_LT(error, 0.015);
  EXPECT_GT(error, 0.003);
}

}  // namespace
}  // namespace eadem::kernels::testing
