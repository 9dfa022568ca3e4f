// Paired differences: what is known of their middle.
#pragma once

#include <cstdint>
#include <span>

#include "audit/statistics/estimate.h"

namespace eadem::audit::statistics {

double mean_of(std::span<const double> values);
double median_of(std::span<const double> values);  // of at least one
// The smallest value that at least a share q of the values do not exceed; of at least one.
double quantile_of(std::span<const double> values, double q);

// Student's interval of the mean ("The probable error of a mean", Biometrika 6, 1908). At least two values.
Estimate student_interval(std::span<const double> values, double confidence = kConfidence);
// Student's interval, mended for skewed values: P. Hall, "On the removal of skewness by transformation", Journal of the
// Royal Statistical Society B 54 (1992), the cubic transformation. At least three values.
Estimate hall_interval(std::span<const double> values, double confidence = kConfidence);
// The p-value that the mean is `least` or less, against that it is more. At least two values.
double student_above(std::span<const double> values, double least);

// The two-sided p-value of the mean being zero, by flipping signs: exact where differences are as likely of either sign
// (R. A. Fisher, "The Design of Experiments", 1935); all signs up to 16 values, else `resamples` of them, counting the
// data's own (B. Phipson and G. K. Smyth, "Permutation p-values should never be zero", Statistical Applications in
// Genetics and Molecular Biology 9, 2010).
double sign_flip_test(std::span<const double> values, uint64_t seed, int resamples = 1999);

// The pseudomedian (J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical
// Statistics 34, 1963) with the interval that belongs to Wilcoxon's signed-rank test (M. Hollander, D. A. Wolfe and E.
// Chicken, "Nonparametric Statistical Methods", 3rd edition, 2014, section 3.3): exact for up to 100 values that lie as
// likely on either side, normal approximation beyond. With fewer than 6 values no interval reaches 0.95: it spans the
// data then, and `confidence` says what it has. At least one value.
Estimate hodges_lehmann_interval(std::span<const double> values, double confidence = kConfidence);
// Wilcoxon's two-sided test that the pseudomedian is zero ("Individual comparisons by ranking methods", Biometrics
// Bulletin 1, 1945): exact as above; values of zero are left out, ties have mean ranks.
double wilcoxon_test(std::span<const double> values);

// The shift between two independent samples, b less a: the median of all differences (Hodges and Lehmann, 1963) with
// the interval that belongs to the test of H. B. Mann and D. R. Whitney ("On a test of whether one of two random
// variables is stochastically larger than the other", Annals of Mathematical Statistics 18, 1947), normal
// approximation. At least four values on either side, at most 2000.
Estimate shift_interval(std::span<const double> a, std::span<const double> b, double confidence = kConfidence);

}  // namespace eadem::audit::statistics
