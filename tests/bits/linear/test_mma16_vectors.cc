// mma16 against the hardware: chains that an H200's tensor core evaluated (tests/bits/vectors/README.md).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "harness.h"
#include "numerics/mma16.h"

namespace eadem::kernels::testing {
namespace {

constexpr int kRows = 16, kOutputs = 8;

struct VectorCase {
  uint32_t family = 0, k = 0;
  std::vector<uint16_t> x, w;
  std::vector<float> carry, y;  // [kRows][kOutputs]
};

template <class T>
std::vector<T> take(const char*& p, size_t count) {
  std::vector<T> v(count);
  memcpy(v.data(), p, count * sizeof(T));
  p += count * sizeof(T);
  return v;
}

// Appends the cases of one file, or none where it is not the file that the README describes.
void read_vectors(const char* name, size_t size, std::vector<VectorCase>& cases) {
  std::ifstream file(std::string(EADEM_SOURCE_DIR "/tests/bits/vectors/") + name, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() != size || bytes.compare(0, 8, std::string("MMA16V2\0", 8)) != 0) return;
  const char* p = bytes.data() + 8;
  for (uint32_t left = take<uint32_t>(p, 1)[0]; left > 0; --left) {
    VectorCase& c = cases.emplace_back();
    c.family = take<uint32_t>(p, 1)[0], c.k = take<uint32_t>(p, 1)[0];
    c.x = take<uint16_t>(p, kRows * c.k), c.w = take<uint16_t>(p, kOutputs * c.k);
    c.carry = take<float>(p, kRows * kOutputs), c.y = take<float>(p, kRows * kOutputs);
  }
}

std::vector<VectorCase> all_vectors() {
  std::vector<VectorCase> cases;
  read_vectors("mma16_h200.bin", 1249764, cases);
  read_vectors("mma16_overflow_h200.bin", 43212, cases);
  return cases;
}

constexpr int kCases = 187 + 24;
constexpr int kAnswers = kCases * kRows * kOutputs;

constexpr int kLead = 32;  // elements before the case's own

// A kernel set's chains begin at +0, so the carry is built by two groups before the case's own: 24 bits are three bf16
// parts, each times a power of two, in slots where only that output has a weight. Such a sum is exact, and groups of
// zeros pass it on.
Layer layer_of(const VectorCase& c, bool with_carry) {
  Layer layer;
  layer.shape = make_shape(Numerics::kMma16, kOutputs, kLead + static_cast<int>(c.k), 1, 32, false);
  layer.rows = kRows;
  const auto stride = static_cast<size_t>(layer.shape.k_padded);
  layer.x.resize(kRows * stride), layer.w.resize(kOutputs * stride);
  for (size_t r = 0; r < kRows; ++r) std::copy_n(&c.x[r * c.k], c.k, &layer.x[r * stride + kLead]);
  for (size_t n = 0; n < kOutputs; ++n) std::copy_n(&c.w[n * c.k], c.k, &layer.w[n * stride + kLead]);
  if (!with_carry) return layer;
  for (size_t n = 0; n < kOutputs; ++n) {
    for (size_t part = 0; part < 3; ++part) layer.w[n * stride + 3 * n + part] = numerics::bf16_operand(0x1p-50f);
    for (size_t r = 0; r < kRows; ++r) {
      float rest = c.carry[r * kOutputs + n];
      for (size_t part = 0; part < 3; ++part) {
        const float high = numerics::float_of(numerics::bits_of(rest) & 0xffff0000u);
        layer.x[r * stride + 3 * n + part] = static_cast<uint16_t>(numerics::bits_of(high * 0x1p50f) >> 16);
        rest -= high;
      }
    }
  }
  return layer;
}

class Mma16Vectors : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cases_.size(), size_t{kCases}); }
  const std::vector<VectorCase> cases_ = all_vectors();
};

TEST_F(Mma16Vectors, TheDefinitionGivesTheHardwaresBits) {
  int compared = 0, differ = 0;
  for (const VectorCase& c : cases_) {
    for (size_t i = 0; i < kRows * kOutputs; ++i, ++compared) {
      const uint16_t *x = &c.x[i / kOutputs * c.k], *w = &c.w[i % kOutputs * c.k];
      const float y = numerics::mma16_chain(c.carry[i], x, w, static_cast<int>(c.k));
      differ += numerics::bits_of(y) != numerics::bits_of(c.y[i]);
    }
  }
  EXPECT_EQ(compared, kAnswers);
  EXPECT_EQ(differ, 0);
}

TEST_F(Mma16Vectors, EverySetGivesTheHardwaresBits) {
  for (const KernelSet* set : available_sets()) {
    int compared = 0, differ = 0, differ_without_carry = 0;
    for (const VectorCase& c : cases_) {
      const std::vector<float> y = evaluate(*set, layer_of(c, true), nullptr);
      const std::vector<float> without = evaluate(*set, layer_of(c, false), nullptr);
      ASSERT_EQ(y.size(), kRows * (kOutputs + kPast));
      for (size_t i = 0; i < kRows * kOutputs; ++i, ++compared) {
        const size_t at = i / kOutputs * (kOutputs + kPast) + i % kOutputs;
        differ += numerics::bits_of(y[at]) != numerics::bits_of(c.y[i]);
        differ_without_carry += numerics::bits_of(without[at]) != numerics::bits_of(c.y[i]);
      }
    }
    EXPECT_EQ(compared, kAnswers) << set->name;
    EXPECT_EQ(differ, 0) << set->name;
    EXPECT_GT(differ_without_carry, 1000) << set->name << ": the carries must matter";
  }
}

// With products of exponent 0 and a smaller carry, 64 is where the aligned sum passes 2^31.
TEST_F(Mma16Vectors, SomeSumsPass32Bits) {
  int past = 0;
  for (const VectorCase& c : cases_) {
    for (size_t i = 0; c.family == 8 && i < kRows * kOutputs; ++i) {
      double sum = c.carry[i];
      for (size_t k = 0; k < c.k; ++k) {
        sum += double{numerics::operand_value(c.x[i / kOutputs * c.k + k])} *
               numerics::operand_value(c.w[i % kOutputs * c.k + k]);
      }
      past += std::abs(sum) >= 64.0;
    }
  }
  EXPECT_GT(past, 1000);
}

// The control: plain FMA chains are not what the tensor core computes.
TEST_F(Mma16Vectors, Fma32Differs) {
  int differ = 0;
  for (const VectorCase& c : cases_) {
    Layer layer = layer_of(c, true);
    layer.shape.numerics = Numerics::kFma32;
    const std::vector<float> y = evaluate(best_kernel_set(), layer, nullptr);
    for (size_t i = 0; i < kRows * kOutputs; ++i) {
      differ += numerics::bits_of(y[i / kOutputs * (kOutputs + kPast) + i % kOutputs]) != numerics::bits_of(c.y[i]);
    }
  }
  EXPECT_GT(differ, 1000);
}

}  // namespace
}  // namespace eadem::kernels::testing
