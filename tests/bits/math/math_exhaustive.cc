// All 2^32 floats through exp, log, log1p and sigmoid: the largest error, its place, and a hash of the results that
// every compiler, instruction set and device can be compared by. Two threads; some minutes.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <thread>
#include <vector>

#include "bits/math/reference.h"
#include "numerics/rng.h"

namespace eadem::test {
namespace {

struct Tally {
  double worst = 0;
  float worst_at = 0;
  std::uint64_t ordinary = 0, special = 0, wrong = 0, by_mpfr = 0, above_half = 0, hash = 0;
  float first_wrong = 0;
};

Tally sweep(const Function& function, std::uint64_t begin, std::uint64_t end) {
  Tally t;
  for (std::uint64_t u = begin; u < end; ++u) {
    const float x = numerics::float_of(static_cast<std::uint32_t>(u));
    const float y = function.ours(x);
    double error = 0;
    const Verdict verdict = judge(function, x, y, error, t.by_mpfr);
    if (verdict == Verdict::kWrong && t.wrong++ == 0) t.first_wrong = x;
    t.ordinary += verdict == Verdict::kOrdinary;
    t.special += verdict == Verdict::kSpecial;
    t.above_half += error > 0.5;
    if (error > t.worst) {
      t.worst = error;
      t.worst_at = x;
    }
    t.hash += numerics::splitmix64((u << 32) | numerics::bits_of(y));  // a sum: any order of evaluation gives the same
  }
  return t;
}

void run(const Function& function, std::uint64_t golden) {
  constexpr std::uint64_t kAll = 1ull << 32;
  constexpr std::uint64_t kThreads = 2;
  std::vector<Tally> tallies(2 * kThreads);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {  // a half of the positive and a half of the negative numbers each
      const std::uint64_t part = kAll / (2 * kThreads);
      tallies[2 * i] = sweep(function, i * part, (i + 1) * part);
      tallies[2 * i + 1] = sweep(function, kAll / 2 + i * part, kAll / 2 + (i + 1) * part);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Tally sum;
  for (const Tally& t : tallies) {
    sum.ordinary += t.ordinary;
    sum.special += t.special;
    sum.by_mpfr += t.by_mpfr;
    sum.above_half += t.above_half;
    sum.hash += t.hash;
    if (t.wrong > 0 && sum.wrong == 0) sum.first_wrong = t.first_wrong;
    sum.wrong += t.wrong;
    if (t.worst > sum.worst) {
      sum.worst = t.worst;
      sum.worst_at = t.worst_at;
    }
  }
  std::printf("%s: worst %.6f ulp at %a; %" PRIu64 " ordinary, %" PRIu64 " special, %" PRIu64
              " not the nearest float, %" PRIu64 " decided by MPFR, %" PRIu64 " wrong, hash 0x%016" PRIx64 "\n",
              function.name, sum.worst, static_cast<double>(sum.worst_at), sum.ordinary, sum.special, sum.above_half,
              sum.by_mpfr, sum.wrong, sum.hash);
  std::fflush(stdout);
  EXPECT_EQ(sum.wrong, 0u) << function.name << " first at " << std::hexfloat << sum.first_wrong;
  EXPECT_EQ(sum.ordinary + sum.special, kAll);
  EXPECT_EQ(sum.hash, golden) << function.name;
}

TEST(MathExhaustive, Exp) { run(kFunctions[0], 0x016a579dd68fc9b7); }
TEST(MathExhaustive, Log) { run(kFunctions[1], 0x8cdd41636920cbda); }
TEST(MathExhaustive, Log1p) { run(kFunctions[2], 0x25429c42fc35e64e); }
TEST(MathExhaustive, Sigmoid) { run(kFunctions[3], 0x28a92c6f96932ba2); }

}  // namespace
}  // namespace eadem::test
