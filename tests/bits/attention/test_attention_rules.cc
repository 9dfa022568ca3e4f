// Each rule of the specification that guards against huge scores, subnormals and vanishing weights, met on purpose, in
// every set.
#include <functional>
#include <string>

#include "bits/attention/harness.h"

namespace eadem::test {
namespace {

using numerics::bf16_operand;
constexpr Numerics kTrees[] = {Numerics::kFma32, Numerics::kMma16};
constexpr int kHead = 8;
constexpr int kPadded = 32;

// Scores set by hand: q = (1, 0, ...), key j = (score, 0, ...), value j = (value, 0, ...), c = 1. Row i sees keys 0 ...
// i.
Sequence by_hand(Numerics tree, const std::vector<float>& scores, const std::vector<float>& values) {
  AttentionShape shape = make_shape(tree, 1, 1, kHead, 0);
  shape.c = 1.0f;
  Sequence s = zero_sequence(shape, static_cast<int64_t>(scores.size()));
  for (int64_t j = 0; j < s.length; ++j) {
    s.query(j)[0] = bf16_operand(1.0f);
    s.key(0, j)[0] = bf16_operand(scores[static_cast<size_t>(j)]);
    s.value(0, j)[0] = bf16_operand(values[static_cast<size_t>(j)]);
  }
  return s;
}

struct Split {
  float m, l, o;
  bool bad;
};

// The first split of the sequence's last row.
Split first_split(const KernelSet& set, const Sequence& s) {
  const Cache cache(set, s, s.length, false);
  const int64_t position = s.length - 1;
  Split result = {};
  std::vector<float> o(kPadded);
  const kernels::AttentionRows rows{s.query(position), &position, 1, cache.view()};
  set.attention_split(s.shape, rows, 0, 0, {&result.m, &result.l, o.data(), &result.bad});
  result.o = o[0];
  return result;
}

// Two blocks: `first` fills the first, `second` the second (each but its first key `rest`).
std::vector<float> two_blocks(float first, float second, float rest) {
  std::vector<float> x(128, rest);
  x[0] = first, x[64] = second;
  return x;
}

void for_each_set(const std::function<void(const KernelSet&, Numerics)>& test) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      SCOPED_TRACE(std::string(set->name) + " " + std::string(numerics::short_name(tree)));
      test(*set, tree);
    }
  }
}

TEST(AttentionRules, TheReferenceMovesOnlyAboveTwoToTheEighth) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    const auto values = two_blocks(1.0f, 0.0f, 0.0f);
    const Split at = first_split(set, by_hand(tree, two_blocks(0.0f, 8.0f, -100.0f), values));
    EXPECT_EQ(at.m, 0.0f);
    EXPECT_EQ(at.l, 257.0f);  // 1 + 2^8
    EXPECT_EQ(at.o, 1.0f);
    const Split above = first_split(set, by_hand(tree, two_blocks(0.0f, 8.0625f, -100.0f), values));
    EXPECT_EQ(above.m, 8.0625f);
    EXPECT_EQ(above.l, numerics::fma_f32(1.0f, numerics::exp2_full(-8.0625f), 1.0f));
    EXPECT_EQ(above.o, numerics::exp2_full(-8.0625f));
    const Split below =
        first_split(set, by_hand(tree, two_blocks(0.0f, -30.0f, -100.0f), values));  // it never moves down
    EXPECT_EQ(below.m, 0.0f);
  });
}

TEST(AttentionRules, ABlocksFirstReferenceIsItsLargestVisibleScore) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    std::vector<float> scores(40, -3.0f), values(40, 1.0f);
    scores[20] = 1.5f;
    EXPECT_EQ(first_split(set, by_hand(tree, scores, values)).m, 1.5f);
    for (float& x : scores) x = -200.0f;  // below the zero of unwritten slots: those must not count
    EXPECT_EQ(first_split(set, by_hand(tree, scores, values)).m, -200.0f);
    EXPECT_EQ(first_split(set, by_hand(tree, scores, values)).l, 40.0f);
  });
}

TEST(AttentionRules, AKeyBelowMinusFiftyHasNoWeight) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    const std::vector<float> values = {0.0f, 0x1p50f};
    EXPECT_EQ(first_split(set, by_hand(tree, {0.0f, -50.0f}, values)).o, 1.0f);
    EXPECT_EQ(first_split(set, by_hand(tree, {0.0f, -50.25f}, values)).o, 0.0f);
    EXPECT_EQ(first_split(set, by_hand(tree, {0.0f, -0x1p100f}, values)).o, 0.0f);
  });
}

TEST(AttentionRules, ASmallCarryBecomesPlusZero) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    for (float sign : {1.0f, -1.0f}) {
      const auto values = two_blocks(sign * 0x1p-50f, 0.0f, 0.0f);
      const Split kept = first_split(set, by_hand(tree, two_blocks(-50.0f, 0.0f, -300.0f), values));
      EXPECT_EQ(kept.o, sign * 0x1p-100f);
      const Split dropped = first_split(set, by_hand(tree, two_blocks(-50.5f, 0.0f, -300.0f), values));
      EXPECT_EQ(numerics::bits_of(dropped.o), 0u);  // +0, of either sign
    }
  });
}

TEST(AttentionRules, TheRescalingStopsAtTwoToTheMinus126) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    const auto values = two_blocks(0x1p50f, 0.0f, 0.0f);
    const Split far = first_split(set, by_hand(tree, two_blocks(-4000.0f, 0.0f, -8000.0f), values));
    EXPECT_EQ(far.o, 0x1p-76f);
    EXPECT_EQ(far.l, 1.0f);
  });
}

TEST(AttentionRules, AHugeScoreFlagsItsRowAlone) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    for (float sign : {1.0f, -1.0f}) {
      const Split at = first_split(set, by_hand(tree, {sign * 0x1p20f}, {1.0f}));
      EXPECT_FALSE(at.bad);
      EXPECT_EQ(at.o, 1.0f);
      EXPECT_TRUE(first_split(set, by_hand(tree, {sign * 0x1.02p20f}, {1.0f})).bad);
      EXPECT_TRUE(first_split(set, by_hand(tree, {sign * 0x1p50f}, {1.0f})).bad);
    }
    // In company: the rows before and after, and another whose own query keeps its scores small.
    Sequence s = make_sequence(make_shape(tree, 1, 2, 64, 0), 200, Data::kOrdinary, 51);
    const std::vector<int64_t> positions = {10, 70, 71, 150};
    const auto want = attend(reference(), s, positions);
    for (int d = 0; d < 64; ++d) s.query(71)[64 + d] = bf16_operand(d % 2 ? 0x1p40f : -0x1p41f);
    auto got = attend(set, s, positions);
    EXPECT_EQ(got[2], RowBits{1});
    got[2] = want[2];
    EXPECT_EQ(difference(want, got), "");
  });
}

// Groups of 7 and 3 heads do not fill the tiles of a kernel: the flag must find its row from any place in them.
TEST(AttentionRules, AHugeScoreFlagsItsRowInALongCall) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    for (int group : {3, 7}) {
      Sequence s = make_sequence(make_shape(tree, 1, group, 8, 0), 90, Data::kOrdinary, 52);
      std::vector<int64_t> positions(60);
      for (size_t r = 0; r < positions.size(); ++r) positions[r] = static_cast<int64_t>(r) + 20;
      const auto want = attend(set, s, positions);
      for (int row = 0; row < 60; row += tree == Numerics::kMma16 ? 7 : 1) {
        Sequence broken = s;
        const int head = row % group;
        for (int d = 0; d < 8; ++d)
          broken.query(row + 20)[head * kPadded + d] = bf16_operand(d % 2 ? 0x1p40f : -0x1p41f);
        auto got = attend(set, broken, positions);
        EXPECT_EQ(got[static_cast<size_t>(row)], RowBits{1}) << row;
        got[static_cast<size_t>(row)] = want[static_cast<size_t>(row)];
        EXPECT_EQ(difference(want, got), "") << row;
      }
    }
  });
}

TEST(AttentionRules, OperandsAtTheEndsOfTheirRange) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    Sequence s = make_sequence(make_shape(tree, 1, 2, 40, 0), 300, Data::kOrdinary, 61);
    Random random(62);
    const float ends[] = {0.0f, 0x1p-50f, -0x1p-50f, 0x1p50f, -0x1p50f};
    for (auto& x : s.v) x = bf16_operand(ends[random.below(5)]);
    for (int64_t j = 0; j < s.length; ++j) {
      for (int d = 0; d < 40; ++d) s.key(0, j)[d] = bf16_operand(ends[random.below(5)]);
      for (int h = 0; h < 2; ++h) {
        for (int d = 0; d < 40; ++d) s.query(j)[h * 64 + d] = bf16_operand(ends[random.below(3)]);  // scores below 2^7
      }
    }
    const std::vector<int64_t> positions = {0, 1, 63, 64, 200, 299};
    const auto want = attend(reference(), s, positions);
    EXPECT_NE(want.back(), RowBits{1});
    EXPECT_EQ(difference(want, attend(set, s, positions)), "");
    for (auto& x : s.q)
      x = x == 0 ? x : bf16_operand(0x1p50f);  // every score far beyond the limit: flagged, nothing worse
    for (int64_t j = 0; j < s.length; ++j) s.key(0, j)[0] = bf16_operand(0x1p50f);
    EXPECT_EQ(difference(attend(reference(), s, positions), attend(set, s, positions)), "");
  });
}

TEST(AttentionRules, NegativeZeroIsNoOperandAndNoResult) {
  EXPECT_EQ(bf16_operand(-0.0f), 0u);
  for_each_set([](const KernelSet& set, Numerics tree) {
    std::vector<float> scores(100, -1.0f), values(100, 0.0f);
    for (size_t j = 0; j < 100; j += 2) values[j] = j % 4 == 0 ? 3.0f : -3.0f;  // they cancel
    scores.resize(80), values.resize(80);
    EXPECT_EQ(numerics::bits_of(first_split(set, by_hand(tree, scores, values)).o), 0u);
  });
}

// A window that opens inside a later split: the first split shows no key, and the merge must not count it.
TEST(AttentionRules, AnEmptyFirstSplit) {
  for_each_set([](const KernelSet& set, Numerics tree) {
    const Sequence s = make_sequence(make_shape(tree, 1, 2, 64, 100), 2300, Data::kPeaked, 71);
    const std::vector<int64_t> positions = {1122, 1123, 1500, 2100, 2299};
    const auto bits = attend(set, s, positions);
    EXPECT_EQ(difference(attend(reference(), s, positions), bits), "");
    EXPECT_EQ(bits[1][0], numerics::bits_of(numerics::kMinusInfinity));
    EXPECT_NE(bits[0][0], numerics::bits_of(numerics::kMinusInfinity));  // position 1122 still sees key 1023
  });
}

}  // namespace
}  // namespace eadem::test
