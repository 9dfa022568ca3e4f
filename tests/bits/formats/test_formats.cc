// Every stored weight type against the float32 values that the `gguf` package's own dequantiser gives, bit for bit
// (tests/accuracy/make_gguf_blocks.py), and the integer view of int8-v1 against the float one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numerics/formats.h"

namespace eadem::numerics {
namespace {

struct Case {
  std::string name;
  DType dtype;
  uint32_t rows;
  uint32_t columns;
  std::vector<std::byte> encoded;
  std::vector<float> expected;
};

// GGUF's numbers of the types.
constexpr std::array<std::pair<uint32_t, DType>, 11> kTypes = {{{0, DType::kF32},
                                                                {1, DType::kF16},
                                                                {2, DType::kQ4_0},
                                                                {3, DType::kQ4_1},
                                                                {6, DType::kQ5_0},
                                                                {7, DType::kQ5_1},
                                                                {8, DType::kQ8_0},
                                                                {12, DType::kQ4_K},
                                                                {13, DType::kQ5_K},
                                                                {14, DType::kQ6_K},
                                                                {30, DType::kBF16}}};

DType type_of(uint32_t number) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == number) return dtype;
  }
  ADD_FAILURE() << "unknown type " << number;
  return DType::kF32;
}

class Fixture {
 public:
  Fixture() {
    std::ifstream in(EADEM_SOURCE_DIR "/tests/accuracy/fixtures/gguf_blocks.bin", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(text(8), "EADEMGB1");
    const uint32_t count = take<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) cases_.push_back(next());
    EXPECT_EQ(position_, bytes_.size());
  }
  const std::vector<Case>& cases() const { return cases_; }

 private:
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }
  std::string text(size_t length) {
    position_ += length;
    return bytes_.substr(position_ - length, length);
  }
  Case next() {
    Case c;
    c.name = text(take<uint32_t>());
    c.dtype = type_of(take<uint32_t>());
    c.rows = take<uint32_t>();
    c.columns = take<uint32_t>();
    const std::string encoded = text(take<uint64_t>());
    c.encoded.resize(encoded.size());
    std::memcpy(c.encoded.data(), encoded.data(), encoded.size());
    const std::string values = text(size_t{4} * c.rows * c.columns);
    c.expected.resize(size_t{c.rows} * c.columns);
    std::memcpy(c.expected.data(), values.data(), values.size());
    return c;
  }

  std::string bytes_;
  size_t position_ = 0;
  std::vector<Case> cases_;
};

const std::vector<Case>& cases() {
  static const Fixture fixture;
  return fixture.cases();
}

bool same_bits(const float* a, const float* b, size_t count) { return std::memcmp(a, b, count * sizeof(float)) == 0; }

std::vector<float> decode(const Case& c) {
  std::vector<float> out(c.expected.size());
  const size_t row_bytes = c.encoded.size() / c.rows;
  for (uint32_t r = 0; r < c.rows; ++r) {
    decode_row(c.dtype, c.encoded.data() + r * row_bytes, c.columns, out.data() + size_t{r} * c.columns);
  }
  return out;
}

TEST(Formats, RowsEqualTheReferenceDequantiser) {
  std::set<DType> seen;
  for (const Case& c : cases()) {
    ASSERT_EQ(c.encoded.size() % c.rows, 0u) << c.name;
    ASSERT_EQ(c.encoded.size() / c.rows, size_t{c.columns} / info(c.dtype).block * info(c.dtype).bytes) << c.name;
    const std::vector<float> out = decode(c);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(bits_of(out[i]), bits_of(c.expected[i])) << c.name << " element " << i;
    seen.insert(c.dtype);
  }
  EXPECT_EQ(seen.size(), kTypes.size());  // every type was compared
}

TEST(Formats, EveryBitOfABlockMatters) {
  // The negative control: whichever bit of the encoded block flips, the values of the block change (a Q6_K scale may be
  // 0, and then its quants do not count; so a flip is sought among the first blocks).
  for (const Case& c : cases()) {
    const size_t block_bytes = info(c.dtype).bytes;
    for (size_t byte = 0; byte < block_bytes; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        bool changed = false;
        for (size_t block = 0; block < 8 && !changed; ++block) {
          Case flipped = c;
          flipped.encoded[block * block_bytes + byte] ^= static_cast<std::byte>(1 << bit);
          flipped.rows = 1;
          flipped.encoded.resize(c.encoded.size() / c.rows);
          flipped.expected.resize(c.columns);
          if (block * block_bytes + byte >= flipped.encoded.size()) break;
          changed = !same_bits(decode(flipped).data(), c.expected.data(), c.columns);
        }
        EXPECT_TRUE(changed) << c.name << " byte " << byte << " bit " << bit;
      }
    }
  }
}

TEST(Formats, RangesAreCutsOfRows) {
  for (const Case& c : cases()) {
    const int block = std::max(info(c.dtype).block, 8);
    for (int64_t first = 0; first < c.columns; first += block) {
      std::vector<float> out(c.columns - first);
      decode_range(c.dtype, c.encoded.data(), first, c.columns - first, out.data());
      EXPECT_TRUE(same_bits(out.data(), c.expected.data() + first, out.size())) << c.name << " from " << first;
      EXPECT_FALSE(first > 0 && same_bits(out.data(), c.expected.data(), out.size())) << c.name;
    }
  }
}

TEST(Formats, IntegersOfInt8AreTheSameWeights) {
  int compared = 0;
  for (const Case& c : cases()) {
    if (!int8_native(c.dtype)) continue;
    const int64_t groups = c.columns / kInt8NativeGroup;
    std::vector<int8_t> q(c.columns);
    std::vector<float> scale(groups), minimum(groups);
    for (uint32_t r = 0; r < c.rows; ++r) {
      const std::byte* row = c.encoded.data() + r * (c.encoded.size() / c.rows);
      decode_row_int8(c.dtype, row, c.columns, q.data(), scale.data(),
                      int8_has_minimum(c.dtype) ? minimum.data() : nullptr);
      for (uint32_t k = 0; k < c.columns; ++k) {
        const int64_t g = k / kInt8NativeGroup;
        float value = mul_f32(scale[g], static_cast<float>(q[k]));
        if (int8_has_minimum(c.dtype)) value = add_f32(value, minimum[g]);
        ASSERT_EQ(bits_of(value), bits_of(c.expected[size_t{r} * c.columns + k]))
            << c.name << " row " << r << " column " << k;
        ASSERT_TRUE(c.dtype != DType::kQ4_0 || (q[k] >= -8 && q[k] <= 7));
        ASSERT_TRUE(c.dtype != DType::kQ4_1 || (q[k] >= 0 && q[k] <= 15));
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 3 * 2 * 4 * 512);
}

TEST(Formats, EveryHalfIsExact) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const int exponent = static_cast<int>(h >> 10 & 31);
    const uint32_t fraction = h & 0x3ff;
    const float out = float_of_half(static_cast<uint16_t>(h));
    const uint32_t bits = bits_of(out);
    ASSERT_EQ(bits >> 31, h >> 15);
    if (exponent == 31) {
      ASSERT_EQ(bits & 0x7fffffffu, 0x7f800000u | fraction << 13);
      continue;
    }
    // The definition in double, where every step is exact.
    double value = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-25;
    for (int i = 0; i < exponent; ++i) value *= 2;
    ASSERT_EQ(static_cast<double>(out), h >> 15 ? -value : value) << h;
  }
}

TEST(Formats, BFloat16IsTheUpperHalf) {
  for (uint32_t h = 0; h < 0x10000; ++h) ASSERT_EQ(bits_of(float_of_bf16(static_cast<uint16_t>(h))), h << 16);
}

}  // namespace
}  // namespace eadem::numerics
