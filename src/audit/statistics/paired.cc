#include "audit/statistics/paired.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "audit/statistics/random.h"
#include "audit/statistics/special.h"
#include "core/check.h"

namespace eadem::audit::statistics {
namespace {

constexpr size_t kExactRanks = 100, kExactSigns = 16;

double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0.0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// P(W = w) of the sum of those of the ranks 1 ... n that are positive, each sign as likely.
std::vector<double> signed_rank_probabilities(size_t n) {
  std::vector<double> probabilities(n * (n + 1) / 2 + 1, 0.0);
  probabilities[0] = 1.0;
  size_t top = 0;
  for (size_t rank = 1; rank <= n; ++rank) {
    top += rank;
    for (size_t w = top + 1; w-- > 0;)
      probabilities[w] = 0.5 * (probabilities[w] + (w >= rank ? probabilities[w - rank] : 0.0));
  }
  return probabilities;
}

// The largest w with P(W <= w) <= alpha, and that probability; w = -1 where there is none.
struct LowerTail {
  int64_t w = -1;
  double probability = 0.0;
};

LowerTail lower_tail(size_t n, double alpha) {
  LowerTail tail;
  if (n <= kExactRanks) {
    const std::vector<double> probabilities = signed_rank_probabilities(n);
    for (double sum = 0.0; sum + probabilities[static_cast<size_t>(tail.w + 1)] <= alpha; ++tail.w) {
      sum += probabilities[static_cast<size_t>(tail.w + 1)];
      tail.probability = sum;
    }
    return tail;
  }
  const double count = static_cast<double>(n), mean = count * (count + 1.0) / 4.0;
  const double deviation = std::sqrt(count * (count + 1.0) * (2.0 * count + 1.0) / 24.0);
  tail.w = static_cast<int64_t>(std::floor(mean - 0.5 + normal_quantile(alpha) * deviation));
  tail.probability = alpha;
  return tail;
}

// All means of two values, a value with itself too, in ascending order.
std::vector<double> walsh_averages(std::span<const double> values) {
  std::vector<double> means;
  means.reserve(values.size() * (values.size() + 1) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i; j < values.size(); ++j) means.push_back(0.5 * (values[i] + values[j]));
  }
  std::sort(means.begin(), means.end());
  return means;
}

}  // namespace

double mean_of(std::span<const double> values) {
  EADEM_CHECK(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::span<const double> values) {
  EADEM_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(sorted.begin(), middle));
}

double quantile_of(std::span<const double> values, double q) {
  EADEM_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<int64_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[static_cast<size_t>(std::clamp<int64_t>(rank, 1, static_cast<int64_t>(sorted.size())) - 1)];
}

Estimate student_interval(std::span<const double> values, double confidence) {
  EADEM_CHECK(values.size() >= 2);
  const double mean = mean_of(values), n = static_cast<double>(values.size());
  const double half = student_quantile(0.5 + 0.5 * confidence, n - 1.0) * deviation_of(values) / std::sqrt(n);
  return {mean, mean - half, mean + half, confidence};
}

Estimate hall_interval(std::span<const double> values, double confidence) {
  EADEM_CHECK(values.size() >= 3);
  const double mean = mean_of(values), deviation = deviation_of(values), n = static_cast<double>(values.size());
  if (deviation == 0.0) return {mean, mean, mean, confidence};
  double cubes = 0.0;
  for (const double value : values) cubes += std::pow((value - mean) / deviation, 3);
  const double skewness = cubes / n;
  if (std::fabs(skewness) < 1e-6) return student_interval(values, confidence);
  const double reach = student_quantile(0.5 + 0.5 * confidence, n - 1.0) / std::sqrt(n);
  const auto inverse = [&](double y) {
    return 3.0 / skewness * (std::cbrt(1.0 + skewness * (y - skewness / (6.0 * n))) - 1.0);
  };
  return {mean, mean - deviation * inverse(reach), mean - deviation * inverse(-reach), confidence};
}

double student_above(std::span<const double> values, double least) {
  EADEM_CHECK(values.size() >= 2);
  const double n = static_cast<double>(values.size()), deviation = deviation_of(values), mean = mean_of(values);
  if (deviation == 0.0) return mean > least ? 0.0 : 1.0;
  return 1.0 - student_cdf((mean - least) / (deviation / std::sqrt(n)), n - 1.0);
}

double sign_flip_test(std::span<const double> values, uint64_t seed, int resamples) {
  const size_t n = values.size();
  const double observed = std::fabs(std::accumulate(values.begin(), values.end(), 0.0));
  double size = 0.0;
  for (const double value : values) size += std::fabs(value);
  const double least = observed - 1e-12 * size;  // equal but for rounding counts as equal
  const auto reaches = [&](auto&& negative) {
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) sum += negative(i) ? -values[i] : values[i];
    return std::fabs(sum) >= least;
  };
  if (n <= kExactSigns) {
    const uint32_t all = uint32_t{1} << n;
    uint32_t extreme = 0;
    for (uint32_t signs = 0; signs < all; ++signs) extreme += reaches([&](size_t i) { return (signs >> i & 1) != 0; });
    return static_cast<double>(extreme) / static_cast<double>(all);
  }
  Random random(seed);
  int extreme = 1;
  for (int i = 0; i < resamples; ++i) extreme += reaches([&](size_t) { return random.coin(); });
  return static_cast<double>(extreme) / static_cast<double>(resamples + 1);
}

Estimate hodges_lehmann_interval(std::span<const double> values, double confidence) {
  EADEM_CHECK(!values.empty());
  const size_t n = values.size();
  const std::vector<double> means = walsh_averages(values);
  const LowerTail tail = lower_tail(n, 0.5 * (1.0 - confidence));
  const double middle = median_of(means);
  if (tail.w < 0) return {middle, means.front(), means.back(), 1.0 - std::ldexp(2.0, -static_cast<int>(n))};
  const auto w = static_cast<size_t>(tail.w);
  return {middle, means[w], means[means.size() - 1 - w], 1.0 - 2.0 * tail.probability};
}

Estimate shift_interval(std::span<const double> a, std::span<const double> b, double confidence) {
  EADEM_CHECK(a.size() >= 4 && b.size() >= 4);
  std::vector<double> differences;
  differences.reserve(a.size() * b.size());
  for (const double x : a) {
    for (const double y : b) differences.push_back(y - x);
  }
  std::sort(differences.begin(), differences.end());
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double deviation = std::sqrt(n * m * (n + m + 1.0) / 12.0);
  const double place = std::floor(0.5 * n * m - 0.5 + normal_quantile(0.5 - 0.5 * confidence) * deviation);
  const auto cut = static_cast<size_t>(std::max(0.0, place));
  return {median_of(differences), differences[cut], differences[differences.size() - 1 - cut], confidence};
}

double wilcoxon_test(std::span<const double> values) {
  std::vector<double> sizes;
  for (const double value : values) {
    if (value != 0.0) sizes.push_back(std::fabs(value));
  }
  const size_t n = sizes.size();
  if (n == 0) return 1.0;
  std::sort(sizes.begin(), sizes.end());
  double positive = 0.0, ties = 0.0;
  for (const double value : values) {
    const auto [first, last] = std::equal_range(sizes.begin(), sizes.end(), std::fabs(value));
    if (value > 0.0) positive += 0.5 * static_cast<double>((first - sizes.begin()) + (last - sizes.begin()) + 1);
  }
  for (size_t i = 0, j = 0; i < n; i = j) {
    for (j = i; j < n && sizes[j] == sizes[i]; ++j) {
    }
    const auto t = static_cast<double>(j - i);
    ties += t * t * t - t;
  }
  const double count = static_cast<double>(n), all = count * (count + 1.0) / 2.0;
  const double w = std::fmin(positive, all - positive);
  if (n <= kExactRanks && ties == 0.0) {
    const std::vector<double> probabilities = signed_rank_probabilities(n);
    double sum = 0.0;
    for (size_t i = 0; i <= static_cast<size_t>(w); ++i) sum += probabilities[i];
    return std::fmin(1.0, 2.0 * sum);
  }
  const double variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - ties / 48.0;
  if (variance <= 0.0) return 1.0;
  return std::fmin(1.0, 2.0 * normal_cdf((w + 0.5 - 0.5 * all) / std::sqrt(variance)));
}

}  // namespace eadem::audit::statistics
