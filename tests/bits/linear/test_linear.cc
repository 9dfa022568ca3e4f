// Every kernel set gives the reference's bits for every linear layer, however its tiles are cut.
#include <gtest/gtest.h>

#include "harness.h"

namespace eadem::kernels::testing {
namespace {

class Linear : public ::testing::TestWithParam<Numerics> {};

const KernelSet& reference() { return *find_kernel_set("reference"); }

// Compares every set with the reference: whole, and in `cuts` random partitions.
void expect_equal(const Layer& layer, Family family, int cuts, Draw& draw) {
  const std::vector<float> expected = evaluate(reference(), layer, nullptr);
  for (const KernelSet* set : available_sets()) {
    if (set != &reference()) {
      EXPECT_TRUE(same_bytes(evaluate(*set, layer, nullptr), expected))
          << set->name << " whole " << describe(layer, family);
    }
    for (int i = 0; i < cuts; ++i) {
      if (set == &reference() && i > 0) break;
      EXPECT_TRUE(same_bytes(evaluate(*set, layer, &draw), expected))
          << set->name << " cut " << describe(layer, family);
    }
  }
}

TEST_P(Linear, RandomShapes) {
  Draw draw(20261129);
  for (int i = 0; i < 160; ++i) {
    const int group = draw.chance(2) ? 128 : 32;
    const int n = 1 + draw.below(draw.chance(3) ? 150 : 40), k = 1 + draw.below(draw.chance(3) ? 1100 : 300);
    const LinearShape shape = make_shape(GetParam(), n, k, 1 << draw.below(4), group, draw.chance(2));
    const auto family = static_cast<Family>(i % kFamilies);
    const bool bias = draw.chance(2), residual = draw.chance(2);
    expect_equal(random_layer(shape, 1 + draw.below(8), family, bias, residual, draw), family, 2, draw);
  }
}

// Each number of rows takes its own path through the inner blocks.
TEST_P(Linear, EveryNumberOfRows) {
  Draw draw(7);
  for (int rows = 1; rows <= 40; ++rows) {
    const LinearShape shape = make_shape(GetParam(), 49, 128, 1, 32, false);
    expect_equal(random_layer(shape, rows, kWide, true, false, draw), kWide, 1, draw);
  }
  for (const int rows : {47, 48, 49, 63, 64, 65, 66, 95, 96, 97, 129}) {
    const LinearShape shape = make_shape(GetParam(), 70, 192, 2, 32, rows % 2 == 0);
    expect_equal(random_layer(shape, rows, kNarrow, rows % 2 == 1, true, draw), kNarrow, 1, draw);
  }
}

TEST_P(Linear, EveryShardCount) {
  Draw draw(8);
  for (int shards : {1, 2, 4, 8}) {
    for (int group : {32, 128}) {
      const LinearShape shape = make_shape(GetParam(), 33, 1024, shards, group, group == 32);
      ASSERT_EQ(shape.shards, shards);
      expect_equal(random_layer(shape, 3, kNarrow, true, true, draw), kNarrow, 2, draw);
    }
  }
}

// More rows and more k than one block of the walk holds.
TEST_P(Linear, BeyondOneBlock) {
  Draw draw(9);
  const LinearShape wide = make_shape(GetParam(), 40, 576, 2, 32, true);
  expect_equal(random_layer(wide, 300, kNarrow, true, true, draw), kNarrow, 2, draw);
  const LinearShape deep = make_shape(GetParam(), 20, 13000, 2, 32, true);
  expect_equal(random_layer(deep, 1, kNarrow, false, true, draw), kNarrow, 1, draw);
  expect_equal(random_layer(deep, 5, kWide, false, false, draw), kWide, 1, draw);
  const LinearShape broad = make_shape(GetParam(), 3100, 64, 2, 32, false);  // more outputs, too
  expect_equal(random_layer(broad, 1, kNarrow, true, false, draw), kNarrow, 1, draw);
  const LinearShape square = make_shape(GetParam(), 300, 96, 1, 32, false);
  expect_equal(random_layer(square, 31, kNarrow, true, true, draw), kNarrow, 1, draw);
  const LinearShape tall = make_shape(GetParam(), 34, 704, 1, 32, false);  // many rows, a long chain
  expect_equal(random_layer(tall, 530, kNarrow, true, true, draw), kNarrow, 1, draw);
}

TEST_P(Linear, EveryFamilyDeep) {
  Draw draw(10);
  for (int f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<Family>(f);
    const LinearShape shape = make_shape(GetParam(), 32, 2048, 1, 128, false);
    expect_equal(random_layer(shape, 5, family, false, false, draw), family, 1, draw);
  }
}

// The layer with two units of k exchanged: the same products, added in another order.
Layer reordered(Layer layer) {
  const LinearShape& s = layer.shape;
  const int unit = s.numerics == Numerics::kInt8 ? s.group : 32;
  const auto exchange = [&](auto& v, int width, int a, int b) {
    const int stride = s.k_padded / unit * width;
    for (size_t row = 0; row < v.size(); row += static_cast<size_t>(stride)) {
      auto* p = v.data() + row;
      std::swap_ranges(p + a * width, p + (a + 1) * width, p + b * width);
    }
  };
  const int last = s.k_padded / unit - 1;
  exchange(layer.w, unit, 0, last), exchange(layer.x, unit, 0, last);
  if (s.numerics == Numerics::kInt8) {
    exchange(layer.wq, unit, 0, last), exchange(layer.xq, unit, 0, last);
    exchange(layer.w_scale, 1, 0, last), exchange(layer.x_scale, 1, 0, last), exchange(layer.x_sum, 1, 0, last);
  }
  return layer;
}

// The control: were any of the above blind to the order of additions, this would be equal too. (Not kCancelling: leaves
// that almost cancel are short numbers, which fma32 adds exactly in any order.)
TEST_P(Linear, ReorderedSumDiffers) {
  for (int f : {kNormal, kNarrow, kWide, kMostlyZero, kOneLarge}) {
    Draw draw(11);
    const LinearShape shape = make_shape(GetParam(), 32, 512, 1, 128, false);
    const Layer layer = random_layer(shape, 4, static_cast<Family>(f), false, false, draw);
    for (const KernelSet* set : available_sets()) {
      const std::vector<float> expected = evaluate(*set, layer, nullptr),
                               other = evaluate(*set, reordered(layer), nullptr);
      ASSERT_EQ(expected.size(), other.size());
      EXPECT_FALSE(same_bytes(expected, other)) << set->name << " family " << f;
    }
  }
}

// Likewise for the shard tree: other shards, other bits.
TEST_P(Linear, OtherShardsDiffer) {
  Draw draw(12);
  Layer layer = random_layer(make_shape(GetParam(), 48, 1024, 8, 128, false), 4, kNarrow, false, false, draw);
  for (const KernelSet* set : available_sets()) {
    const std::vector<float> eight = evaluate(*set, layer, nullptr);
    Layer four = layer;
    four.shape.shards = 4;
    EXPECT_FALSE(same_bytes(eight, evaluate(*set, four, nullptr))) << set->name;
  }
}

// int8 weights of which more is known lie in fewer bytes, and give the reference's bits as well.
TEST(StoredInt8, GivesTheSameBits) {
  Draw draw(13);
  for (const Int8Weights stored : {Int8Weights::kHalves, Int8Weights::kNibbles}) {
    for (const bool minimum : {false, true}) {
      for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 64, 70, 300}) {
        LinearShape shape = make_shape(Numerics::kInt8, 1 + draw.below(80), 32 * (1 + draw.below(40)), 8, 32, minimum);
        LinearShape plain = shape;
        shape.stored = stored;
        const KernelSet& best = best_kernel_set();
        EXPECT_TRUE(best.linear_bytes(shape) < best.linear_bytes(plain) || &best == &reference());
        const Layer layer = random_layer(shape, rows, kNarrow, rows % 2 == 0, rows % 3 == 0, draw);
        expect_equal(layer, kNarrow, 1, draw);
        // The control: one weight moved by one step in its last group.
        Layer other = layer;
        int8_t& q = other.wq[static_cast<size_t>(shape.k_padded) - 32];
        q = static_cast<int8_t>(q + (q > 0 ? -1 : 1));
        other.w_scale[static_cast<size_t>(shape.groups()) - 1] = 1.0f;
        EXPECT_FALSE(same_bytes(evaluate(best, layer, nullptr), evaluate(best, other, nullptr)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllNumerics, Linear, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

// The largest products and sums of a group there are, which intermediate results of 16 bits only just hold: all weights
// at one end, and x at the ends, with one sign or with signs by turns.
TEST(StoredInt8, TheLargestSumsAreExact) {
  for (const Int8Weights stored : {Int8Weights::kAny, Int8Weights::kHalves, Int8Weights::kNibbles}) {
    for (const bool minimum : {false, true}) {
      for (const int group : {32, 128}) {
        if (stored != Int8Weights::kAny && group != 32) continue;
        LinearShape shape = make_shape(Numerics::kInt8, 49, 256, 1, group, minimum);
        shape.stored = stored;
        Draw draw(14);
        Layer layer = random_layer(shape, 9, kNormal, false, false, draw);
        const int offset = stored != Int8Weights::kNibbles ? -128 : minimum ? 0 : -8;
        const int ends[] = {offset, stored != Int8Weights::kNibbles ? 127 : 15 + offset};
        for (size_t i = 0; i < layer.wq.size(); ++i) {
          layer.wq[i] = static_cast<int8_t>(ends[i / static_cast<size_t>(shape.k_padded) % 2]);
        }
        for (size_t i = 0; i < layer.x.size(); ++i) {
          const size_t row = i / static_cast<size_t>(shape.k_padded);
          const bool negative = row % 3 == 0 || (row % 3 == 1 && i % 2 == 0);
          layer.x[i] = numerics::bf16_operand(negative ? -2.5f : 2.5f);
        }
        quantise_rows(layer);
        EXPECT_EQ(std::abs(layer.x_sum[0]), 127 * group);
        expect_equal(layer, kNormal, 1, draw);
      }
    }
  }
}

TEST(KernelSets, TheRegistryIsSound) {
  EXPECT_EQ(all_kernel_sets().back(), &reference());
  EXPECT_TRUE(best_kernel_set().supported());
  EXPECT_EQ(find_kernel_set("no such set"), nullptr);
  for (const KernelSet* set : all_kernel_sets()) EXPECT_EQ(find_kernel_set(set->name), set);
  // A machine for which only the reference is left would make every comparison above empty.
  EXPECT_GE(available_sets().size(), 2u);
}

}  // namespace
}  // namespace eadem::kernels::testing
