#include "audit/statistics/special.h"

#include <cmath>
#include <initializer_list>

#include "core/check.h"

namespace eadem::audit::statistics {
namespace {

// The continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  constexpr int kMost = 100'000;
  double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
  if (std::fabs(d) < kTiny) d = kTiny;
  d = 1.0 / d;
  double fraction = d;
  for (int i = 1; i <= kMost; ++i) {
    const double m = i;
    for (const double term : {m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))}) {
      d = 1.0 + term * d;
      if (std::fabs(d) < kTiny) d = kTiny;
      c = 1.0 + term / c;
      if (std::fabs(c) < kTiny) c = kTiny;
      d = 1.0 / d;
      fraction *= d * c;
      if (std::fabs(d * c - 1.0) < kEnough && term < 0.0) return fraction;
    }
  }
  return fraction;
}

// The x at which an increasing function reaches p, in [low, high].
template <class Function>
double invert(Function&& f, double p, double low, double high) {
  for (int i = 0; i < 200 && high - low > 1e-15 * (std::fabs(low) + std::fabs(high)); ++i) {
    const double middle = 0.5 * (low + high);
    (f(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double normal_quantile(double p) {
  EADEM_CHECK(p > 0.0 && p < 1.0);
  return invert(normal_cdf, p, -40.0, 40.0);
}

double beta_cdf(double x, double a, double b) {
  EADEM_CHECK(a > 0.0 && b > 0.0);
  if (x <= 0.0) return 0.0;
  if (x >= 1.0) return 1.0;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(x, a, b) / a;
  return 1.0 - front * beta_fraction(1.0 - x, b, a) / b;
}

double beta_quantile(double p, double a, double b) {
  EADEM_CHECK(p > 0.0 && p < 1.0);
  return invert([&](double x) { return beta_cdf(x, a, b); }, p, 0.0, 1.0);
}

double student_cdf(double x, double freedom) {
  EADEM_CHECK(freedom > 0.0);
  const double tail = 0.5 * beta_cdf(freedom / (freedom + x * x), 0.5 * freedom, 0.5);
  return x > 0.0 ? 1.0 - tail : tail;
}

double student_quantile(double p, double freedom) {
  EADEM_CHECK(p > 0.0 && p < 1.0);
  double most = 10.0;
  while (student_cdf(most, freedom) < std::fmax(p, 1.0 - p)) most *= 2.0;
  return invert([&](double x) { return student_cdf(x, freedom); }, p, -most, most);
}

double binomial_cdf(int64_t k, int64_t n, double p) {
  if (k < 0) return 0.0;
  if (k >= n) return 1.0;
  return beta_cdf(1.0 - p, static_cast<double>(n - k), static_cast<double>(k) + 1.0);
}

}  // namespace eadem::audit::statistics
