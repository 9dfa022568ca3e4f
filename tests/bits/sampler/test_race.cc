// What the sampler asks of a whole row, over every kernel set: sums of weights and the largest logit equal the
// reference's; no token that can win a race is left out, its word is its own, and nearly all that cannot are.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/fp_env.h"
#include "kernels/kernel_set.h"
#include "numerics/sampling.h"

namespace eadem::kernels {
namespace {

constexpr int kLengths[] = {1, 3, 15, 16, 17, 63, 64, 65, 257, 1000, 49152, 300001};

std::vector<float> random_row(std::mt19937& rng, int n, float spread, float middle) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) x = middle + normal(rng);
  if (n > 7) row[5] = -std::numeric_limits<float>::infinity();
  return row;
}

TEST(SamplerKernels, LargestAndSumsEqualTheReference) {
  const FpEnvironment environment;
  const KernelSet& reference = *find_kernel_set("reference");
  std::mt19937 rng(2);
  for (const KernelSet* set : all_kernel_sets()) {
    if (!set->supported()) continue;
    for (const int n : kLengths) {
      auto row = random_row(rng, n, 3.0f, -1.0f);
      for (float& x : row) x = n % 2 == 0 ? std::round(x) : x;  // ties, and both zeros
      const uint64_t calls = set->calls->load();
      const Largest got = set->largest(row.data(), n), want = reference.largest(row.data(), n);
      EXPECT_EQ(got.token, want.token) << set->name << " " << n;
      EXPECT_EQ(numerics::bits_of(got.logit), numerics::bits_of(want.logit)) << set->name << " " << n;
      std::vector<float> weights(row.size());
      set->top_p_weights(row.data(), n, want.logit, weights.data());
      for (const float least : {1.0f, 1000.0f, 0x1p25f, 0x1p31f, 0x1p32f}) {
        const uint64_t sum = reference.weight_above(weights.data(), n, least);
        EXPECT_EQ(set->weight_above(weights.data(), n, least), sum) << set->name << " " << n;
        std::vector<int32_t> places(row.size() + 1), expected(row.size() + 1);
        const int from = n > 100 ? 37 : 0;
        const int count = reference.weights_between(weights.data(), from, n, least, 4.0f * least, expected.data());
        EXPECT_EQ(set->weights_between(weights.data(), from, n, least, 4.0f * least, places.data()), count);
        EXPECT_EQ(places, expected) << set->name << " " << n;
        // The negative control: another bound gives another sum.
        EXPECT_NE(set->weight_above(weights.data(), n, sum != 0 ? 0x1.8p31f : 1.0f), sum);
      }
      EXPECT_GT(set->calls->load(), calls);
      for (const size_t at : {size_t{0}, row.size() / 2, row.size() - 1}) {
        auto bad = row;
        bad[at] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_TRUE(set->largest(bad.data(), n).nan) << set->name << " " << n;
      }
    }
  }
}

// Checks the contenders of a row and returns how many there were.
int check_contenders(const KernelSet& set, const RaceCall& call, int n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n) + 1, -1);
  std::vector<uint32_t> words(tokens.size());
  const int begin = n > 100 ? 64 : 0;
  const int count = set.contenders(call, begin, n, tokens.data(), words.data());
  int at = 0;
  for (int t = begin; t < n; ++t) {
    const uint32_t word = numerics::token_word(call.seed, static_cast<uint32_t>(t), call.position);
    const bool listed = at < count && tokens[static_cast<size_t>(at)] == t;
    if (listed) {
      EXPECT_EQ(words[static_cast<size_t>(at)], word) << set.name << " token " << t;
      EXPECT_GE(call.logits[t], call.least);
      ++at;
    }
    const bool wins = call.logits[t] >= call.least && numerics::gumbel_score(call.logits[t], word) >= call.best;
    EXPECT_TRUE(listed || !wins) << set.name << " token " << t << " of " << n << " best " << call.best;
  }
  EXPECT_EQ(at, count) << set.name << ": ids ascend";
  EXPECT_EQ(tokens[static_cast<size_t>(count)], -1) << set.name << ": nothing is written behind them";
  return count;
}

TEST(SamplerKernels, NoTokenThatCanWinIsLeftOut) {
  const FpEnvironment environment;
  std::mt19937 rng(5);
  for (const KernelSet* set : all_kernel_sets()) {
    if (!set->supported()) continue;
    for (const int n : kLengths) {
      for (const float spread : {0.01f, 3.0f, 30.0f}) {
        for (const float middle : {0.0f, -700.0f, 3e7f}) {
          const auto row = random_row(rng, n, spread, middle);
          const float max = set->largest(row.data(), n).logit;
          for (const float above : {-1.0f, 3.0f, 9.0f, 23.5f}) {
            RaceCall call{row.data(), rng(), static_cast<uint32_t>(rng()), -std::numeric_limits<float>::infinity(),
                          max + above};
            if (rng() % 2 == 0) call.least = row[rng() % row.size()];
            const int count = check_contenders(*set, call, n);
            // Sets that look (the reference takes everyone) let few through that cannot win.
            if (set->name != "reference" && n > 40000 && above == 9.0f && middle == 0.0f) {
              EXPECT_LT(count, n / 500);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace eadem::kernels
