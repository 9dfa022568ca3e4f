// One operation gives the rounded quotient for every operand of a scale group, whatever its scale.
#include <gtest/gtest.h>

#include "numerics/int8.h"
#include "numerics/int8_reciprocal.h"

namespace eadem::numerics {
namespace {

uint16_t operand_of(int exponent, int significand) {
  return static_cast<uint16_t>((127 + exponent) << 7 | significand);
}

// Significands and the distance of exponents are all that counts: nothing here is subnormal.
TEST(Int8Reciprocal, RoundsAsADivision) {
  long quotients = 0, nearest = 0;
  for (const int exponent : {-50, -17, 0, 1, 49}) {
    for (int largest = 0; largest < 128; ++largest) {
      const float most = operand_value(operand_of(exponent, largest));
      const float scale = div_f32(most, 127.0f), reciprocal = int8_reciprocal(most, scale);
      for (int below = 0; below <= 50 + exponent; ++below) {
        for (int significand = 0; significand < 128; ++significand) {
          const float x = operand_value(operand_of(exponent - below, significand));
          if (x > most) continue;
          const float want = rint_f32(div_f32(x, scale));
          ASSERT_EQ(sub_f32(int8_biased(x, reciprocal), kInt8Bias), want) << x << " of " << most;
          ASSERT_EQ(sub_f32(int8_biased(-x, reciprocal), kInt8Bias), -want);
          ++quotients;
          nearest += sub_f32(int8_biased(x, div_f32(1.0f, scale)), kInt8Bias) != want;
        }
      }
    }
  }
  EXPECT_GT(quotients, 1000000);
  EXPECT_GT(nearest, 0);  // the control: the reciprocal that is nearest gives other integers
  EXPECT_EQ(int8_biased(0.0f, 0.0f), kInt8Bias);
}

}  // namespace
}  // namespace eadem::numerics
