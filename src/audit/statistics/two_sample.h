// Two samples of token sequences for each of many prompts: do they come from one distribution, prompt by prompt?
//
// The distance is the maximum mean discrepancy (A. Gretton, K. Borgwardt, M. Rasch, B. Schoelkopf and A. Smola, "A
// kernel two-sample test", Journal of Machine Learning Research 13, 2012) with the kernel that counts the positions at
// which two sequences agree, over their number. Its square is the mean over positions of the squared Euclidean distance
// between the two distributions of the token there; half of the energy distance (G. J. Szekely and M. L. Rizzo, "Energy
// statistics", Journal of Statistical Planning and Inference 143, 2013) of the Hamming metric. So at no position does a
// token's probability differ by more than the distance there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audit/statistics/estimate.h"

namespace eadem::audit::statistics {

// Category k of sequence s at position j is a[s * positions + j]; categories are any numbers (a token, or one for "has
// ended"). The first `paired` sequences of a and b are partners, drawn with common random numbers, in the same order;
// all others are independent.
struct TwoSamples {
  size_t positions = 1;
  std::vector<int32_t> a, b;
  size_t paired = 0;

  size_t size_a() const { return a.size() / positions; }
  size_t size_b() const { return b.size() / positions; }
};

// The squared distance without bias, so that it may be negative: partners are left out of the mean of the kernel
// between the samples. At least two sequences on either side.
double squared_distance(const TwoSamples& samples);

// The probability, under equal distributions, of a sum of squared distances as large as that of these prompts. By
// permutation within each prompt: partners change sides by the toss of a coin, others are dealt anew; exact where they
// are exchangeable, whatever the prompts. At most `permutations`, fewer where `enough` were as large (J. Besag and P.
// Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991).
double permutation_test(std::span<const TwoSamples> prompts, uint64_t seed, int permutations = 999, int enough = 10);

// The mean over prompts of the squared distance, with Hall's interval: the prompt is the unit, and the statement is
// about prompts like these. At least three prompts.
Estimate mean_squared_distance(std::span<const TwoSamples> prompts, double confidence = kConfidence);

}  // namespace eadem::audit::statistics
