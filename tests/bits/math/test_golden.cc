// Golden digests: the elementary functions are frozen, and every instruction set gives the same bits. A digest that moves needs a new
// version of the numerics (docs/numerics.md).
#include <gtest/gtest.h>

#include "bits/math/golden.h"

namespace eadem::test {
namespace {

const std::vector<Digest> kGolden = {
    {"exp", "c5ba57a77e4b08e2f96956fa3722209b55d88c41ca0c2ad53bbaa0b9698d9937"},
    {"log", "7a611978a5cd95df43df7bbe98076e61e9c3bc57236f2fcce4ce81bb873b12cc"},
    {"log1p", "dd60351266de6d149397221b664fecbb1f0c5151444cc8935cfcfeb31019ed04"},
    {"sigmoid", "882bcd1590bd4e0ed39eff093224a01ebc508fe54dfab5cd30c583abe80594a8"},
    {"exp2p", "862ee0c70b7b3c8ec07a1688d346cf17f24064cbc4b05349e9fe37e707916de1"},
    {"exp2_full", "e5215d521b7179f46ac741c4d0e5faa1c79dd95cba20a73938beecefd33cc5ba"},
    {"gumbel", "8742cb6e9f387aa5441f34606b6573181f2b3a8b52dcc386f90bc20dd15cac2e"},
    {"double", "264b9ce34408411c81689cae44d2321d17b6f0937276843250cee686a2d23ca6"},
};

void expect_golden(const std::vector<Digest>& digests) {
  ASSERT_EQ(digests.size(), kGolden.size());
  for (std::size_t i = 0; i < kGolden.size(); ++i) {
    EXPECT_EQ(digests[i].function, kGolden[i].function);
    EXPECT_EQ(digests[i].sha256, kGolden[i].sha256) << kGolden[i].function;
  }
}

TEST(Golden, Baseline) { expect_golden(baseline::digests()); }

#if defined(__x86_64__)
TEST(Golden, Avx2) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no AVX2 and FMA";
  expect_golden(avx2::digests());
}

TEST(Golden, Avx512) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this CPU has no AVX-512F";
  expect_golden(avx512::digests());
}
#endif

}  // namespace
}  // namespace eadem::test
