// A set that evaluates SwiGLU inside the layer of gates and ups leaves the bytes that the reference's two ops leave,
// and reports the same rows, however its tiles are cut.
#include <gtest/gtest.h>

#include "harness.h"

namespace eadem::kernels::testing {
namespace {

constexpr uint16_t kUntouched = 0x5a5a;

struct Operands {
  std::vector<uint16_t> y;   // [rows][n / 2 + kPast]
  std::vector<uint8_t> bad;  // [rows]

  bool operator==(const Operands&) const = default;
};

Operands untouched(const Layer& layer) {
  const auto rows = static_cast<size_t>(layer.rows);
  return {std::vector<uint16_t>(rows * static_cast<size_t>(layer.shape.n / 2 + kPast), kUntouched),
          std::vector<uint8_t>(rows, 0)};
}

Operands by_two_ops(const KernelSet& set, const Layer& layer) {
  const std::vector<float> outputs = evaluate(set, layer, nullptr);
  const int n = layer.shape.n / 2;
  Operands result = untouched(layer);
  for (int row = 0; row < layer.rows; ++row) {
    const float* const gate_up = outputs.data() + static_cast<size_t>(row) * (2 * n + kPast);
    result.bad[row] = !set.swiglu(gate_up, n, n, result.y.data() + static_cast<size_t>(row) * (n + kPast));
  }
  return result;
}

// Tiles of whole rows of panels, each of at least the rows that are fused; `draw` null: one tile.
Operands fused(const KernelSet& set, const Layer& layer, int least_rows, Draw* draw) {
  const LinearShape& s = layer.shape;
  const std::vector<std::byte> packed = pack(set, layer);
  Operands result = untouched(layer);
  LinearCall call;
  call.shape = &layer.shape, call.weights = packed.data();
  call.x = {layer.x.data(), layer.xq.data(), layer.x_scale.data(), layer.x_sum.data()};
  const SwigluCall swiglu{result.y.data(), s.n / 2 + kPast, reinterpret_cast<bool*>(result.bad.data())};
  std::vector<LinearTile> tiles;
  const std::vector<int> panels = random_cuts(s.n / 2 / kPanel, draw);
  for (size_t p = 0; p + 1 < panels.size(); ++p) {
    const bool cut = draw != nullptr && layer.rows >= 2 * least_rows;
    const int middle = cut ? least_rows + draw->below(layer.rows - 2 * least_rows + 1) : layer.rows;
    tiles.push_back({panels[p], panels[p + 1], 0, middle});
    if (cut) tiles.push_back({panels[p], panels[p + 1], middle, layer.rows});
  }
  if (draw != nullptr) std::shuffle(tiles.begin(), tiles.end(), draw->generator());
  const uint64_t before = *set.calls;
  for (const LinearTile& tile : tiles) set.linear_swiglu(call, swiglu, tile);
  EXPECT_EQ(*set.calls, before + tiles.size()) << set.name;
  return result;
}

std::vector<const KernelSet*> fusing_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : available_sets()) {
    if (set->fuses_swiglu != nullptr) sets.push_back(set);
  }
  return sets;
}

// The fewest rows for which a set fuses the layer; 0: it never does.
int least_rows(const KernelSet& set, const LinearShape& shape) {
  for (int rows = 1; rows <= 64; ++rows) {
    if (set.fuses_swiglu(shape, rows)) return rows;
  }
  return 0;
}

void expect_equal(const LinearShape& shape, int rows, Family family, Draw& draw) {
  const Layer layer = random_layer(shape, rows, family, false, false, draw);
  const Operands expected = by_two_ops(*find_kernel_set("reference"), layer);
  for (const KernelSet* set : fusing_sets()) {
    const int least = least_rows(*set, shape);
    if (least == 0 || rows < least) continue;
    EXPECT_EQ(fused(*set, layer, least, nullptr), expected) << set->name << " whole " << describe(layer, family);
    EXPECT_EQ(fused(*set, layer, least, &draw), expected) << set->name << " cut " << describe(layer, family);
  }
}

TEST(FusedSwiglu, EveryNumberOfRows) {
  Draw draw(31);
  for (int rows = 1; rows <= 70; ++rows) {
    const auto family = static_cast<Family>(rows % kFamilies);
    expect_equal(make_shape(Numerics::kFma32, 64, 96, 1, 32, false), rows, family, draw);
  }
  for (const int rows : {1, 2, 5, 24, 25, 51}) {
    expect_equal(make_shape(Numerics::kMma16, 192, 96, 1, 32, false), rows, kNormal, draw);
  }
  for (const int rows : {95, 96, 97, 130}) {
    expect_equal(make_shape(Numerics::kFma32, 320, 1056, 1, 32, false), rows, kNarrow, draw);
  }
  expect_equal(make_shape(Numerics::kFma32, 64, 704, 1, 32, false), 545, kNarrow, draw);  // many rows, a long chain
}

TEST(FusedSwiglu, EveryFamilyAndWidth) {
  Draw draw(32);
  for (const int n : {64, 128, 192, 448}) {
    for (int family = 0; family < kFamilies; ++family) {
      expect_equal(make_shape(Numerics::kFma32, n, 32 + 32 * draw.below(30), 1, 32, false), 17 + draw.below(40),
                   static_cast<Family>(family), draw);
    }
  }
}

// int8 in each form in which a file's weights are stored.
TEST(FusedSwiglu, EveryStorage) {
  Draw draw(35);
  for (const Int8Weights stored : {Int8Weights::kAny, Int8Weights::kHalves, Int8Weights::kNibbles}) {
    for (const bool minimum : {false, true}) {
      for (const int rows : {1, 2, 7, 9, 12, 16, 17, 18, 31, 33, 64, 100, 300}) {
        LinearShape shape =
            make_shape(Numerics::kInt8, 64 * (1 + draw.below(6)), 32 * (1 + draw.below(12)), 1, 32, minimum);
        shape.stored = stored;
        expect_equal(shape, rows, kNarrow, draw);
      }
    }
  }
}

// Infinities of both signs meet in a row's sums: that row alone is reported.
TEST(FusedSwiglu, ReportsTheRowsThatAreNotNumbers) {
  Draw draw(33);
  Layer layer = random_layer(make_shape(Numerics::kFma32, 128, 256, 1, 32, false), 40, kNormal, false, false, draw);
  for (const int row : {3, 21, 39}) {
    for (int k = 0; k < 256; ++k) layer.x[static_cast<size_t>(row) * 256 + k] = 0x7f7f;  // the largest bfloat16
  }
  const Operands expected = by_two_ops(*find_kernel_set("reference"), layer);
  for (int row = 0; row < 40; ++row) EXPECT_EQ(expected.bad[row], row == 3 || row == 21 || row == 39) << row;
  for (const KernelSet* set : fusing_sets()) {
    const int least = least_rows(*set, layer.shape);
    ASSERT_GT(least, 0) << set->name;
    EXPECT_EQ(fused(*set, layer, least, &draw), expected) << set->name;
  }
}

// Not every layer can be fused, and the sets say so.
TEST(FusedSwiglu, IsNotOfferedWhereItWouldNotFit) {
  for (const KernelSet* set : fusing_sets()) {
    EXPECT_FALSE(set->fuses_swiglu(make_shape(Numerics::kFma32, 96, 64, 1, 32, false), 64)) << set->name;  // padding
    EXPECT_FALSE(set->fuses_swiglu(make_shape(Numerics::kFma32, 128, 512, 8, 32, false), 64)) << set->name;
  }
}

// The negative control: gates and ups in each other's place.
TEST(FusedSwiglu, ExchangedHalvesDiffer) {
  Draw draw(34);
  const Layer layer =
      random_layer(make_shape(Numerics::kFma32, 128, 256, 1, 32, false), 33, kNormal, false, false, draw);
  Layer other = layer;
  std::rotate(other.w.begin(), other.w.begin() + static_cast<std::ptrdiff_t>(other.w.size() / 2), other.w.end());
  for (const KernelSet* set : fusing_sets()) {
    EXPECT_NE(fused(*set, layer, 17, nullptr), fused(*set, other, 17, nullptr)) << set->name;
  }
}

}  // namespace
}  // namespace eadem::kernels::testing
