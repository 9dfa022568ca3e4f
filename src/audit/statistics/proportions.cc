#include "audit/statistics/proportions.h"

#include <cmath>

#include "audit/statistics/special.h"
#include "core/check.h"

namespace eadem::audit::statistics {

Estimate wilson_interval(int64_t successes, int64_t n, double confidence) {
  EADEM_CHECK(n >= 1 && successes >= 0 && successes <= n);
  const double z = normal_quantile(0.5 + 0.5 * confidence), count = static_cast<double>(n);
  const double p = static_cast<double>(successes) / count, z2 = z * z;
  const double centre = (p + z2 / (2.0 * count)) / (1.0 + z2 / count);
  const double half = z * std::sqrt(p * (1.0 - p) / count + z2 / (4.0 * count * count)) / (1.0 + z2 / count);
  return {p, std::fmax(0.0, centre - half), std::fmin(1.0, centre + half), confidence};
}

Estimate clopper_pearson_interval(int64_t successes, int64_t n, double confidence) {
  EADEM_CHECK(n >= 1 && successes >= 0 && successes <= n);
  const double alpha = 0.5 * (1.0 - confidence), k = static_cast<double>(successes), count = static_cast<double>(n);
  return {k / count, successes == 0 ? 0.0 : beta_quantile(alpha, k, count - k + 1.0),
          successes == n ? 1.0 : beta_quantile(1.0 - alpha, k + 1.0, count - k), confidence};
}

Estimate paired_proportion_difference(const PairedCounts& counts, double confidence) {
  const int64_t n = counts.items();
  EADEM_CHECK(n >= 1);
  const Estimate a = wilson_interval(counts.both + counts.only_a, n, confidence);
  const Estimate b = wilson_interval(counts.both + counts.only_b, n, confidence);
  const auto both = static_cast<double>(counts.both), only_a = static_cast<double>(counts.only_a);
  const auto only_b = static_cast<double>(counts.only_b), neither = static_cast<double>(counts.neither);
  // The correlation of the two, with Newcombe's correction towards zero where it is positive.
  const double margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither);
  double product = both * neither - only_a * only_b;
  if (product > 0.0) product = std::fmax(product - 0.5 * static_cast<double>(n), 0.0);
  const double phi = margins > 0.0 ? product / std::sqrt(margins) : 0.0;
  const double difference = b.value - a.value;
  const auto reach = [phi](double one, double other) {
    return std::sqrt(std::fmax(0.0, one * one - 2.0 * phi * one * other + other * other));
  };
  return {difference, difference - reach(b.value - b.low, a.high - a.value),
          difference + reach(b.high - b.value, a.value - a.low), confidence};
}

double mcnemar_exact(const PairedCounts& counts) {
  const int64_t discordant = counts.only_a + counts.only_b;
  if (discordant == 0) return 1.0;
  return std::fmin(1.0, 2.0 * binomial_cdf(std::min(counts.only_a, counts.only_b), discordant, 0.5));
}

}  // namespace eadem::audit::statistics
