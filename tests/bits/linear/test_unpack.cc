// Rows read back from packed weights: the operands that were packed, and of stored types those of the values that the
// file's rows decode to, in every set.
#include <gtest/gtest.h>

#include "harness.h"
#include "kernels/free/free_sets.h"
#include "numerics/formats.h"
#include "support/brief.h"

namespace eadem::kernels::testing {
namespace {

// Those of the contract and their twins in free order: whatever packs weights for a machine like this one.
std::vector<const KernelSet*> packing_sets() {
  std::vector<const KernelSet*> sets = available_sets();
  for (const KernelSet* set : available_sets()) {
    const KernelSet* const twin = free_order_twin(*set);
    if (twin != nullptr && std::find(sets.begin(), sets.end(), twin) == sets.end()) sets.push_back(twin);
  }
  return sets;
}

// All rows, [n][k_padded], each read into memory that held something else and ends behind it.
std::vector<uint16_t> unpack(const KernelSet& set, const LinearShape& s, const std::vector<std::byte>& packed) {
  constexpr uint16_t kOld = 0xabcd;
  const size_t k = static_cast<size_t>(s.k_padded);
  std::vector<uint16_t> all, row(k + 32);
  const uint64_t before = *set.calls;
  for (int n = 0; n < s.n; ++n) {
    std::fill(row.begin(), row.end(), kOld);
    set.unpack_row(s, n, packed.data(), row.data());
    EXPECT_TRUE(std::all_of(row.begin() + s.k_padded, row.end(), [](uint16_t x) { return x == kOld; })) << set.name;
    all.insert(all.end(), row.begin(), row.begin() + s.k_padded);
  }
  EXPECT_EQ(*set.calls, before + static_cast<uint64_t>(s.n)) << set.name;
  return all;
}

std::vector<size_t> differences(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  std::vector<size_t> at;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) at.push_back(i);
  }
  return at;
}

class Unpack : public ::testing::TestWithParam<Numerics> {};

TEST_P(Unpack, OperandsAreThoseThatWerePacked) {
  Draw draw(20261130);
  for (const int n : {1, 15, 16, 17, 33, 70}) {
    for (const int k : {1, 31, 32, 33, 72, 100, 576, 1100}) {
      const Layer layer = random_layer(make_shape(GetParam(), n, k, 1, 32, false), 1, kWide, false, false, draw);
      for (const KernelSet* set : packing_sets()) {
        if (set->free_order && GetParam() == Numerics::kMma16) continue;  // there is none
        EXPECT_TRUE(unpack(*set, layer.shape, pack(*set, layer)) == layer.w) << set->name << " n=" << n << " k=" << k;
        // The control: an operand that is packed otherwise is read otherwise, in its place and nowhere else.
        Layer other = layer;
        const size_t at = static_cast<size_t>(draw.below(n) * layer.shape.k_padded + draw.below(k));
        other.w[at] ^= 0x80u, other.w[at] |= 0x4000u;
        EXPECT_EQ(differences(unpack(*set, layer.shape, pack(*set, other)), other.w), std::vector<size_t>{});
        EXPECT_EQ(differences(unpack(*set, layer.shape, pack(*set, other)), layer.w), std::vector<size_t>{at});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfOperands, Unpack, ::testing::Values(Numerics::kFma32, Numerics::kMma16),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

// Rows of a stored type: every q in every place, under scales and minima of any sign and size, subnormal ones too.
struct StoredRows {
  DType dtype;
  LinearShape shape;
  std::vector<std::byte> bytes;  // as in a file

  size_t row_bytes() const {
    return static_cast<size_t>(shape.k / info(dtype).block) * static_cast<size_t>(info(dtype).bytes);
  }
};

StoredRows stored_rows(DType dtype, int n, int k, Draw& draw) {
  StoredRows rows;
  rows.dtype = dtype;
  rows.shape = make_shape(Numerics::kInt8, n, k, 1, 32, numerics::int8_has_minimum(dtype));
  rows.shape.stored = dtype == DType::kQ8_0 ? Int8Weights::kHalves : Int8Weights::kNibbles;
  rows.bytes.resize(static_cast<size_t>(n) * rows.row_bytes());
  for (std::byte& byte : rows.bytes) byte = static_cast<std::byte>(draw.below(256));
  const size_t block = static_cast<size_t>(info(dtype).bytes);
  const uint16_t units[] = {0x3c00, 0};  // a row's last group: scale 1, minimum 0, under which every q differs
  const numerics::HalfFields fields = numerics::half_fields(dtype);
  for (size_t at = 0; at < rows.bytes.size(); at += block) {
    const bool last = (at + block) % rows.row_bytes() == 0;
    for (int i = 0; i < fields.count; ++i) {
      const int sign = draw.below(2) << 15;
      const auto half = static_cast<uint16_t>(sign | draw.below(draw.chance(4) ? 0x400 : 0x7c00));  // finite
      memcpy(rows.bytes.data() + at + fields.offset[i], last ? units + i : &half, sizeof half);
    }
  }
  return rows;
}

std::vector<uint16_t> decoded(const StoredRows& rows) {
  std::vector<uint16_t> operands;
  std::vector<float> values(static_cast<size_t>(rows.shape.k));
  for (int n = 0; n < rows.shape.n; ++n) {
    const std::byte* const row = rows.bytes.data() + static_cast<size_t>(n) * rows.row_bytes();
    numerics::decode_row(rows.dtype, row, rows.shape.k, values.data());
    for (const float value : values) operands.push_back(numerics::bf16_operand(value));
  }
  return operands;
}

std::vector<std::byte> pack(const KernelSet& set, const StoredRows& rows) {
  const LinearShape& s = rows.shape;
  std::vector<std::byte> packed(set.linear_bytes(s));
  std::vector<int8_t> q(static_cast<size_t>(s.k_padded));
  std::vector<float> scale(static_cast<size_t>(s.groups())), minimum(scale.size());
  for (int n = 0; n < s.n; ++n) {
    const std::byte* const row = rows.bytes.data() + static_cast<size_t>(n) * rows.row_bytes();
    numerics::decode_row_int8(rows.dtype, row, s.k, q.data(), scale.data(), minimum.data());
    set.pack_int8(s, n, q.data(), scale.data(), s.minimum ? minimum.data() : nullptr, packed.data());
  }
  return packed;
}

TEST(UnpackStored, OperandsAreThoseOfTheFilesValues) {
  Draw draw(31);
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    for (const int n : {1, 15, 16, 17, 70, 300}) {
      for (const int k : {32, 64, 96, 576, 1056}) {
        const StoredRows rows = stored_rows(dtype, n, k, draw);
        const std::vector<uint16_t> expected = decoded(rows);
        // The control: a quant that decodes otherwise is read otherwise, in its place and nowhere else.
        StoredRows other = rows;
        const size_t end = static_cast<size_t>(1 + draw.below(n)) * rows.row_bytes();
        other.bytes[end - 1 - static_cast<size_t>(draw.below(16))] ^= std::byte{1};
        EXPECT_EQ(differences(decoded(other), expected).size(), 1u);
        for (const KernelSet* set : packing_sets()) {
          EXPECT_TRUE(unpack(*set, rows.shape, pack(*set, rows)) == expected)
              << set->name << " " << info(dtype).name << " n=" << n << " k=" << k;
          EXPECT_TRUE(unpack(*set, rows.shape, pack(*set, other)) == decoded(other)) << set->name;
        }
      }
    }
  }
}

// Every finite scale with every q of Q8_0 (under the emulator: of every 31 scales one, in runs of 16).
TEST(UnpackStored, EveryScaleAndQuant) {
  const uint32_t step = eadem::testing::brief() ? 16 * 31 : 16;
  for (uint32_t first = 0; first < 0x10000; first += step) {
    if ((first & 0x7fff) >= 0x7c00) continue;  // not finite
    StoredRows rows;
    rows.dtype = DType::kQ8_0;
    rows.shape = make_shape(Numerics::kInt8, 16, 256, 1, 32, false);
    rows.shape.stored = Int8Weights::kHalves;
    for (uint32_t half = first; half < first + 16; ++half) {
      for (int q = 0; q < 256; ++q) {
        if (q % 32 == 0) rows.bytes.push_back(std::byte(half & 255)), rows.bytes.push_back(std::byte(half >> 8));
        rows.bytes.push_back(static_cast<std::byte>(q));
      }
    }
    const std::vector<uint16_t> expected = decoded(rows);
    for (const KernelSet* set : packing_sets()) {
      ASSERT_TRUE(unpack(*set, rows.shape, pack(*set, rows)) == expected) << set->name << " scale " << first;
    }
  }
}

}  // namespace
}  // namespace eadem::kernels::testing
