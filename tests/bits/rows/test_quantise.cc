// Every kernel set quantises int8 activations as the reference does: q, scales and sums of q.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "bits/rows/values.h"
#include "kernels/kernel_set.h"
#include "numerics/operand.h"

namespace eadem::test {
namespace {

TEST(Quantise, GroupsOfAllSizesOfValues) {
  for (const KernelSet* set : sets()) {
    for (int group : {32, 128}) {
      for (Values values : kAllValues) {
        const int k = 5 * group;
        const auto x = draw(k, values, 19);
        std::vector<uint16_t> operands(static_cast<size_t>(k));
        for (int i = 0; i < k; ++i)
          operands[static_cast<size_t>(i)] = i / group == 2 ? 0 : numerics::bf16_operand(x[static_cast<size_t>(i)]);
        for (int i = 0; i < group; ++i) {  // ties, and both ends: scale 1
          const float tie = i == 0 ? 127.0f : i == 1 ? -127.0f : static_cast<float>(i % 60) - 30.5f;
          operands[static_cast<size_t>(3 * group + i)] = numerics::bf16_operand(tie);
        }
        std::vector<int8_t> q[2];
        std::vector<float> scale[2];
        std::vector<int32_t> sum[2];
        const KernelSet* pair[] = {set, &reference()};
        for (int i = 0; i < 2; ++i) {
          q[i].assign(static_cast<size_t>(k), 99), scale[i].assign(5, -1.0f), sum[i].assign(5, -1);
          pair[i]->quantise(operands.data(), k, group, q[i].data(), scale[i].data(), sum[i].data());
        }
        EXPECT_EQ(q[0], q[1]) << set->name;
        EXPECT_EQ(sum[0], sum[1]) << set->name;
        EXPECT_EQ(std::memcmp(scale[0].data(), scale[1].data(), 5 * sizeof(float)), 0) << set->name;
        EXPECT_EQ(scale[0][2], 0.0f);
        EXPECT_EQ(scale[0][3], 1.0f);
        EXPECT_EQ(q[0][static_cast<size_t>(3 * group)], 127);
        EXPECT_EQ(q[0][static_cast<size_t>(3 * group + 2)], -28);  // -28.5 is a tie: to even
        EXPECT_EQ(q[0][static_cast<size_t>(3 * group + 3)], -28);  // -27.5 too
      }
    }
  }
}

// Every quotient there is, but for a power of two: each largest element's mantissa by the smaller elements of 12
// binades. Rounding the product with 1 / scale instead differs for some of them.
TEST(Quantise, EveryQuotient) {
  constexpr int kGroup = 32, kBinades = 12, kElements = kBinades * 128;
  int differ = 0;
  for (uint16_t mantissa = 0; mantissa < 128; ++mantissa) {
    const uint16_t top = static_cast<uint16_t>(127 << 7 | mantissa);
    std::vector<uint16_t> operands;
    for (int i = 0; i < kElements; ++i) {
      if (operands.size() % kGroup == 0) operands.push_back(top);
      const auto magnitude = static_cast<uint16_t>((127 << 7) - (kBinades - 1) * 128 + i);
      operands.push_back(static_cast<uint16_t>(std::min(magnitude, top) | (i % 2 << 15)));
    }
    operands.resize((operands.size() + kGroup - 1) / kGroup * kGroup);
    const int k = static_cast<int>(operands.size()), groups = k / kGroup;
    std::vector<int8_t> want(operands.size()), got(operands.size());
    std::vector<float> scale(static_cast<size_t>(groups));
    std::vector<int32_t> sum(static_cast<size_t>(groups));
    reference().quantise(operands.data(), k, kGroup, want.data(), scale.data(), sum.data());
    const float inverse = 1.0f / scale[0];
    for (size_t i = 0; i < operands.size(); ++i) {
      differ += static_cast<int>(std::nearbyint(numerics::operand_value(operands[i]) * inverse)) != want[i];
    }
    for (const KernelSet* set : sets()) {
      set->quantise(operands.data(), k, kGroup, got.data(), scale.data(), sum.data());
      EXPECT_EQ(got, want) << set->name << " " << mantissa;
    }
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace eadem::test
