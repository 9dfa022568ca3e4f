// Every kernel set gives the reference's top-p weights and their exact sum, at lengths around every vector width.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/fp_env.h"
#include "kernels/kernel_set.h"

namespace eadem::kernels {
namespace {

TEST(TopPWeights, EverySetGivesTheReferencesBytes) {
  const FpEnvironment environment;
  const KernelSet& reference = *find_kernel_set("reference");
  std::mt19937 rng(9);
  int compared = 0;
  for (const KernelSet* set : all_kernel_sets()) {
    if (set == &reference || !set->supported()) continue;
    for (const int n : {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 257, 1000, 49152, 400001}) {
      for (const float spread : {0.0f, 0.01f, 3.0f, 30.0f}) {
        std::normal_distribution<float> normal(-5.0f, 1.0f);
        std::vector<float> logits(static_cast<size_t>(n));
        for (float& l : logits) l = normal(rng) * spread;
        if (n > 7) logits[5] = -std::numeric_limits<float>::infinity();
        float max = logits[0];
        for (const float l : logits) max = l > max ? l : max;
        std::vector<float> expected(logits.size()), got(logits.size());
        const uint64_t calls = set->calls->load();
        const uint64_t total = reference.top_p_weights(logits.data(), n, max, expected.data());
        EXPECT_EQ(set->top_p_weights(logits.data(), n, max, got.data()), total) << set->name << " " << n;
        const size_t bytes = expected.size() * sizeof(float);
        EXPECT_EQ(std::memcmp(expected.data(), got.data(), bytes), 0) << set->name << " " << n;
        EXPECT_EQ(set->calls->load(), calls + 1);
        uint64_t sum = 0;
        for (const float w : got) sum += static_cast<uint64_t>(w);
        EXPECT_EQ(sum, total);
        // The negative control: another maximum gives other weights.
        set->top_p_weights(logits.data(), n, max + 0.001f, got.data());
        EXPECT_NE(std::memcmp(expected.data(), got.data(), bytes), 0);
        ++compared;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "this machine runs the reference alone";
}

}  // namespace
}  // namespace eadem::kernels
