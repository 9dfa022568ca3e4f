// Pooling of hidden states: one result under every instruction set, and close to the exact one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "bits/pooling/pool.h"
#include "core/sha256.h"
#include "numerics/pooling.h"

namespace eadem::test {
namespace {

struct Matrix {
  int64_t rows;
  int n;
  std::vector<uint16_t> x;  // operands [rows][n]
};

// `octaves`: how far apart the magnitudes lie. Beyond some 45 the order of addition shows in the sum.
Matrix random_matrix(uint32_t seed, int64_t rows, int n, int octaves) {
  std::mt19937 rng(seed);
  Matrix m{rows, n, {}};
  for (int64_t i = 0; i < rows * n; ++i) {
    const uint32_t h = rng();
    const int exponent = 127 - octaves / 2 + static_cast<int>(rng() % static_cast<uint32_t>(octaves));
    m.x.push_back(static_cast<uint16_t>((h & 0x807f) | static_cast<uint32_t>(exponent) << 7));
  }
  return m;
}

// Large rows that cancel around small ones: 2 `pairs` rows of either, in the order large, small, minus large, small.
Matrix cancelling_matrix(uint32_t seed, int64_t pairs, int n) {
  const Matrix small = random_matrix(seed, 2 * pairs, n, 20), large = random_matrix(seed + 1, pairs, n, 20);
  Matrix m{4 * pairs, n, {}};
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t big = static_cast<uint16_t>(large.x[static_cast<size_t>(row / 4 * n + i)] + (36 << 7));
      m.x.push_back(row % 2 == 1   ? static_cast<uint16_t>(small.x[static_cast<size_t>(row / 2 * n + i)] - (36 << 7))
                    : row % 4 == 0 ? big
                                   : static_cast<uint16_t>(big ^ 0x8000));
    }
  }
  return m;
}

using Pool = void (*)(const uint16_t*, int64_t, int, double*, float*);

std::vector<float> pooled(const Matrix& m, Pool pool) {
  std::vector<double> sum(static_cast<size_t>(m.n));
  std::vector<float> out(static_cast<size_t>(m.n));
  pool(m.x.data(), m.rows, m.n, sum.data(), out.data());
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const Matrix kMatrices[] = {random_matrix(1, 1, 8, 20),     random_matrix(2, 7, 72, 98),
                            random_matrix(3, 300, 576, 90), random_matrix(4, 1000, 97, 60),
                            random_matrix(5, 50, 4096, 12), cancelling_matrix(6, 9, 200)};

TEST(Pooling, EveryInstructionSetGivesTheSameBytes) {
  int sets = 0;
  Sha256 hash;
  for (const Matrix& m : kMatrices) {
    const std::vector<float> expected = pooled(m, baseline::pool);
    hash.update(std::as_bytes(std::span(expected)));
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      EXPECT_TRUE(same(pooled(m, avx2::pool), expected));
      ++sets;
    }
    if (__builtin_cpu_supports("avx512f")) {
      EXPECT_TRUE(same(pooled(m, avx512::pool), expected));
      ++sets;
    }
#endif
  }
  RecordProperty("sets_compared", sets);
  EXPECT_EQ(hash.hex(), "e7969e72edc7c125492932b5a23d99e0f2e2245f39d22d9e82ff3495e2228593");
}

TEST(Pooling, TheControlAnotherOrderOfRowsGivesOtherBytes) {
  Matrix m = kMatrices[5];
  const std::vector<float> expected = pooled(m, baseline::pool);
  const auto last = m.x.end() - 4 * m.n;  // of the last four rows: minus large comes before the small now
  std::swap_ranges(last + m.n, last + 2 * m.n, last + 2 * m.n);
  EXPECT_FALSE(same(pooled(m, baseline::pool), expected));
}

// Against long double: hidden states as models have them (magnitudes within 2^12 of each other).
TEST(Pooling, IsCloseToTheExactVector) {
  for (const int64_t rows : {int64_t{1}, int64_t{40}, int64_t{3000}}) {
    const Matrix m = random_matrix(static_cast<uint32_t>(rows), rows, 576, 12);
    std::vector<long double> mean(static_cast<size_t>(m.n));
    long double square = 0;
    for (int i = 0; i < m.n; ++i) {
      for (int64_t row = 0; row < rows; ++row) {
        mean[static_cast<size_t>(i)] +=
            static_cast<long double>(numerics::operand_value(m.x[static_cast<size_t>(row * m.n + i)]));
      }
      mean[static_cast<size_t>(i)] /= static_cast<long double>(rows);
      square += mean[static_cast<size_t>(i)] * mean[static_cast<size_t>(i)];
    }
    const std::vector<float> got = pooled(m, baseline::pool);
    for (size_t i = 0; i < got.size(); ++i) {
      const long double want = mean[i] / std::sqrt(square);
      EXPECT_LE(std::fabs(static_cast<long double>(got[i]) - want), 4e-7L * std::fabs(want)) << rows << " " << i;
    }
  }
}

TEST(Pooling, ZerosStayZeros) {
  const Matrix m{3, 5, std::vector<uint16_t>(15)};
  EXPECT_TRUE(same(pooled(m, baseline::pool), std::vector<float>(5)));
}

}  // namespace
}  // namespace eadem::test
