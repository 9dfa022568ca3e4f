// Distribution functions, by the methods of W. H. Press, S. A. Teukolsky, W. T. Vetterling, B. P. Flannery, "Numerical
// Recipes", 3rd edition, Cambridge 2007, chapter 6 (continued fractions and series), and their inverses by bisection:
// relative error below 1e-9 in the range that tests of hypotheses use.
#pragma once

#include <cstdint>

namespace eadem::audit::statistics {

// Standard normal distribution; p in (0, 1).
double normal_cdf(double x);
double normal_quantile(double p);

// Student's distribution of `freedom` > 0 degrees; p in (0, 1).
double student_cdf(double x, double freedom);
double student_quantile(double p, double freedom);

// Regularised incomplete beta function I_x(a, b), the distribution function of Beta(a, b); a, b > 0, x in [0, 1].
double beta_cdf(double x, double a, double b);
double beta_quantile(double p, double a, double b);

// P(X <= k) of X ~ Binomial(n, p), exact.
double binomial_cdf(int64_t k, int64_t n, double p);

}  // namespace eadem::audit::statistics
