// Proportions, alone and paired.
#pragma once

#include <cstdint>

#include "audit/statistics/estimate.h"

namespace eadem::audit::statistics {

// The score interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of
// the American Statistical Association 22 (1927). 0 <= successes <= n, n >= 1.
Estimate wilson_interval(int64_t successes, int64_t n, double confidence = kConfidence);

// The exact interval: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the
// case of the binomial", Biometrika 26 (1934). Covers at least at its confidence, also where trials have unlike
// probabilities and their mean is asked for (W. Hoeffding, "On the distribution of the number of successes in
// independent trials", Annals of Mathematical Statistics 27, 1956).
Estimate clopper_pearson_interval(int64_t successes, int64_t n, double confidence = kConfidence);

// The same items judged twice: how often only A succeeded, and so on.
struct PairedCounts {
  int64_t both = 0, only_a = 0, only_b = 0, neither = 0;

  int64_t items() const { return both + only_a + only_b + neither; }
};

// The difference of paired proportions, B less A: method 10 of R. G. Newcombe, "Improved confidence intervals for the
// difference between binomial proportions based on paired data", Statistics in Medicine 17 (1998): Wilson intervals of
// both proportions joined with their correlation. At least one item.
Estimate paired_proportion_difference(const PairedCounts& counts, double confidence = kConfidence);

// The exact two-sided test that success is equally likely: Q. McNemar, "Note on the sampling error of the difference
// between correlated proportions or percentages", Psychometrika 12 (1947), by the binomial distribution.
double mcnemar_exact(const PairedCounts& counts);

}  // namespace eadem::audit::statistics
