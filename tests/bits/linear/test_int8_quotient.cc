// int8_quotient's three operations give the rounded quotient for every operand of a scale group, whatever its scale.
#include <gtest/gtest.h>

#include <cstring>

#include "numerics/int8_quotient.h"

namespace eadem::numerics {
namespace {

uint16_t operand_of(int exponent, int significand) {
  return static_cast<uint16_t>((127 + exponent) << 7 | significand);
}

// Significands and the distance of exponents are all that counts: nothing here is subnormal.
TEST(Int8Quotient, IsThatOfADivision) {
  long quotients = 0, multiplied = 0;
  for (const int exponent : {-50, -17, 0, 1, 49}) {
    for (int largest = 0; largest < 128; ++largest) {
      const float most = operand_value(operand_of(exponent, largest));
      const float scale = div_f32(most, 127.0f), reciprocal = div_f32(1.0f, scale);
      for (int below = 0; below <= 50 + exponent; ++below) {
        for (int significand = 0; significand < 128; ++significand) {
          const float x = operand_value(operand_of(exponent - below, significand));
          if (x > most) continue;
          const float want = div_f32(x, scale), got = int8_quotient(x, scale, reciprocal);
          ASSERT_EQ(std::memcmp(&want, &got, sizeof(float)), 0) << x << " of " << most;
          ASSERT_EQ(int8_quotient(-x, scale, reciprocal), -want);
          ++quotients;
          multiplied += mul_f32(x, reciprocal) != want;
        }
      }
    }
  }
  EXPECT_GT(quotients, 1000000);
  EXPECT_GT(multiplied, 0);  // the control: the product with the reciprocal alone is another number
  EXPECT_EQ(int8_quotient(0.0f, 0.0f, 0.0f), 0.0f);
}

}  // namespace
}  // namespace eadem::numerics
