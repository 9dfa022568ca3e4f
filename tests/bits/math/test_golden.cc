// Golden digests: the elementary functions are frozen, and every instruction set gives the same bits. A digest that
// moves needs a new version of the numerics (docs/numerics.md).
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "bits/math/evaluate.h"
#include "core/sha256.h"
#include "numerics/rng.h"

namespace eadem::test {
namespace {

const char* const kGoldenFloat[] = {
    "c5ba57a77e4b08e2f96956fa3722209b55d88c41ca0c2ad53bbaa0b9698d9937",  // exp
    "7a611978a5cd95df43df7bbe98076e61e9c3bc57236f2fcce4ce81bb873b12cc",  // log
    "dd60351266de6d149397221b664fecbb1f0c5151444cc8935cfcfeb31019ed04",  // log1p
    "882bcd1590bd4e0ed39eff093224a01ebc508fe54dfab5cd30c583abe80594a8",  // sigmoid
    "862ee0c70b7b3c8ec07a1688d346cf17f24064cbc4b05349e9fe37e707916de1",  // exp2p
    "e5215d521b7179f46ac741c4d0e5faa1c79dd95cba20a73938beecefd33cc5ba",  // exp2_full
    "8742cb6e9f387aa5441f34606b6573181f2b3a8b52dcc386f90bc20dd15cac2e",  // gumbel
    "07bde716bddda800f7d54e9c6161cf03a7f43beb8f768313398d8549994d6073",  // swiglu
};
const char* const kGoldenDouble[] = {
    "db87e2eb831d0865f4f78ccd7869f940dec64d17cb5299a1e3cac424441673de",  // sin
    "f470382180a73edb40603ecfedbe2015d88cec12842a320421d4be327331a702",  // cos
    "3c4a5a9016628a0f125187275c02fa6f2f7e9ca97ad107388a5a89e31769b446",  // exp
    "cd232d26f461df4c0ea2d057064c5fea8e27fe0535e1e69dceb9b2bbbf30849b",  // log
    "d8c6cf650afcd5b0ba260c942d10c0f14c4924f450052a1acab3b7d0291201c1",  // pow
};

// A stride through all floats, and 64 around each power of two, zero and infinity.
std::vector<std::uint32_t> float_inputs() {
  std::vector<std::uint32_t> in;
  for (std::uint64_t u = 0; u < (1ull << 32); u += 8209) in.push_back(static_cast<std::uint32_t>(u));
  for (std::uint32_t e = 0; e < 512; ++e) {
    for (std::uint32_t i = 0; i < 64; ++i) in.push_back((e << 23) + i - 32);
  }
  return in;
}

// The SHA-256 of the results' bits, little-endian.
template <class Evaluate>
std::string float_digest(Evaluate evaluate, FloatFunction function) {
  const std::vector<std::uint32_t> in = float_inputs();
  std::vector<std::uint32_t> out(in.size());
  evaluate(function, in.data(), out.data(), in.size());
  Sha256 sha;
  sha.update(std::as_bytes(std::span(out)));
  return sha.hex();
}

template <class Evaluate>
std::string double_digest(Evaluate evaluate, DoubleFunction function) {
  std::vector<double> x;
  std::vector<double> y;
  for (std::uint64_t i = 0; i < 50000; ++i) {
    y.push_back(static_cast<double>(numerics::splitmix64(i) >> 11) * 0x1p-53);
    x.push_back(static_cast<double>(i * 21) * y.back());
  }
  std::vector<double> out(x.size());
  evaluate(function, x.data(), y.data(), out.data(), x.size());
  Sha256 sha;
  sha.update(std::as_bytes(std::span(out)));
  return sha.hex();
}

template <class Evaluate>
void expect_golden(Evaluate evaluate) {
  static_assert(std::size(kGoldenFloat) == static_cast<std::size_t>(FloatFunction::kCount));
  static_assert(std::size(kGoldenDouble) == static_cast<std::size_t>(DoubleFunction::kCount));
  for (std::size_t i = 0; i < std::size(kGoldenFloat); ++i) {
    EXPECT_EQ(float_digest(evaluate, static_cast<FloatFunction>(i)), kGoldenFloat[i]) << "float function " << i;
  }
  for (std::size_t i = 0; i < std::size(kGoldenDouble); ++i) {
    EXPECT_EQ(double_digest(evaluate, static_cast<DoubleFunction>(i)), kGoldenDouble[i]) << "double function " << i;
  }
}

TEST(Golden, Baseline) {
  expect_golden([](auto... arguments) { baseline::evaluate(arguments...); });
}

#if defined(__x86_64__)
TEST(Golden, Avx2) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  expect_golden([](auto... arguments) { avx2::evaluate(arguments...); });
}

TEST(Golden, Avx512) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this CPU has no AVX-512F";
  expect_golden([](auto... arguments) { avx512::evaluate(arguments...); });
}
#endif

TEST(Golden, ADigestSeesOneBit) {  // the negative control
  const auto off_by_one = [](FloatFunction function, const std::uint32_t* in, std::uint32_t* out, std::size_t count) {
    baseline::evaluate(function, in, out, count);
    out[count / 2] ^= 1u;
  };
  EXPECT_NE(float_digest(off_by_one, FloatFunction::kExp), kGoldenFloat[0]);
}

}  // namespace
}  // namespace eadem::test
