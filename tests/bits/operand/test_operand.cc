// bf16_operand: the rule as a table, over every float32 against a second formulation, and in every set's vector form.
#include <gtest/gtest.h>

#include <cmath>  // the test alone: the second formulation
#include <cstdint>
#include <vector>

#include "kernels/kernel_set.h"
#include "numerics/operand.h"

namespace eadem {
namespace {

using numerics::bf16_operand;
using numerics::bits_of;
using numerics::float_of;

constexpr float kInfinity = INFINITY;

struct Entry {
  float x;
  uint16_t operand;
};

// Exponents: 2^-50 has the bf16 bits 0x2680, 2^50 has 0x5880, 1 has 0x3f80.
const Entry kTable[] = {
    {0.0f, 0x0000},
    {-0.0f, 0x0000},
    {1.0f, 0x3f80},
    {-1.0f, 0xbf80},
    {0x1.01p0f, 0x3f80},      // half way: to the even significand, down
    {0x1.03p0f, 0x3f82},      // half way: to the even significand, up
    {0x1.010002p0f, 0x3f81},  // just above half way
    {0x1.00fffep0f, 0x3f80},  // just below half way
    {-0x1.03p0f, 0xbf82},
    {0x1.ffp0f, 0x4000},  // the significand carries into the exponent
    {0x1p-50f, 0x2680},
    {-0x1p-50f, 0xa680},
    {0x1.fffffep-51f, 0x0000},  // tested before rounding: it would round up to 2^-50
    {-0x1.fffffep-51f, 0x0000},
    {0x1p-126f, 0x0000},
    {0x1p-149f, 0x0000},
    {-0x1p-149f, 0x0000},
    {0x1p50f, 0x5880},
    {0x1.fffffep49f, 0x5880},  // rounds up to the limit
    {0x1.000002p50f, 0x5880},
    {-0x1.000002p50f, 0xd880},
    {0x1.fffffep127f, 0x5880},
    {-0x1.fffffep127f, 0xd880},
    {kInfinity, 0x5880},
    {-kInfinity, 0xd880},
    {float_of(0x7fc00000u), 0x0000},
    {float_of(0xffc00000u), 0x0000},
    {float_of(0x7f800001u), 0x0000},
    {float_of(0xff800001u), 0x0000},
    {float_of(0x7fffffffu), 0x0000},
};

// The rule in other words: by double arithmetic instead of bits.
uint16_t by_doubles(float x) {
  if (std::isnan(x)) return 0;
  double a = std::fabs(static_cast<double>(x));
  if (a < 0x1p-50) return 0;
  if (a > 0x1p50) a = 0x1p50;
  int exponent;
  std::frexp(a, &exponent);
  const double unit = std::ldexp(1.0, exponent - 8);
  const float rounded = static_cast<float>(std::nearbyint(a / unit) * unit);
  return static_cast<uint16_t>((bits_of(rounded) | (std::signbit(x) ? 0x80000000u : 0u)) >> 16);
}

TEST(Operand, Table) {
  for (const Entry& e : kTable) EXPECT_EQ(bf16_operand(e.x), e.operand) << std::hexfloat << e.x << " " << bits_of(e.x);
}

TEST(Operand, ADenseSampleEqualsTheRuleInDoubles) {
  uint64_t nonzero = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32);
       bits += 509) {  // a prime step: every exponent, all kinds of low bits
    const float x = float_of(static_cast<uint32_t>(bits));
    ASSERT_EQ(bf16_operand(x), by_doubles(x)) << std::hex << bits;
    nonzero += bf16_operand(x) != 0;
  }
  EXPECT_GT(nonzero, 1000000u);
}

TEST(Operand, RoundingIsIdempotentAndSymmetric) {
  for (uint32_t high = 0; high < 0x10000u; ++high) {
    const uint16_t operand = bf16_operand(float_of(high << 16));
    EXPECT_EQ(bf16_operand(numerics::operand_value(operand)), operand);
    const uint16_t negated = bf16_operand(-float_of(high << 16));
    EXPECT_EQ(negated, operand == 0 ? 0 : operand ^ 0x8000u);
  }
}

// Through split_qkv without norm and rope, which does nothing else: in each lane of each set, and in its tails.
TEST(Operand, EverySetRoundsAlike) {
  for (const kernels::KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported()) continue;
    kernels::QkvShape shape;
    shape.heads = shape.kv_heads = 1;
    shape.head_size = 37, shape.head_padded = 64;
    for (const Entry& e : kTable) {
      for (int at = 0; at < 3 * 37; ++at) {
        std::vector<float> qkv(3 * 37, 3.0f);
        qkv[static_cast<size_t>(at)] = e.x;
        std::vector<uint16_t> q(64, 0xffff), k(37), v(37);
        const bool good = set->split_qkv(shape, qkv.data(), nullptr, nullptr, q.data(), k.data(), v.data());
        EXPECT_EQ(good, !std::isnan(e.x)) << set->name;
        const uint16_t* part[] = {q.data(), k.data(), v.data()};
        for (int i = 0; i < 3 * 37; ++i) {
          ASSERT_EQ(part[i / 37][i % 37], i == at ? e.operand : 0x4040)
              << set->name << " " << e.x << " at " << at << ", element " << i;
        }
        for (int i = 37; i < 64; ++i) ASSERT_EQ(q[static_cast<size_t>(i)], 0) << set->name;
      }
    }
  }
}

}  // namespace
}  // namespace eadem
