#include "audit/quality.h"

#include <algorithm>
#include <vector>

#include "audit/statistics/multiple.h"
#include "audit/statistics/paired.h"
#include "audit/statistics/proportions.h"
#include "core/check.h"

namespace eadem::audit {
namespace {

using statistics::Estimate;
using statistics::Verdict;

constexpr int64_t kFewestItems = 6;

bool is_binary(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0.0 || value == 1.0; });
}

statistics::PairedCounts count(std::span<const double> a, std::span<const double> b) {
  statistics::PairedCounts counts;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool in_a = a[i] == 1.0, in_b = b[i] == 1.0;
    ++(in_a && in_b ? counts.both : in_a ? counts.only_a : in_b ? counts.only_b : counts.neither);
  }
  return counts;
}

}  // namespace

MetricResult compare_metric(const std::string& metric, std::span<const double> a, std::span<const double> b,
                            double margin, uint64_t seed) {
  EADEM_CHECK(!a.empty() && a.size() == b.size() && margin > 0.0);
  MetricResult result;
  result.metric = metric;
  result.items = static_cast<int64_t>(a.size());
  result.margin = margin;
  result.proportion = is_binary(a) && is_binary(b);
  result.a = statistics::mean_of(a);
  result.b = statistics::mean_of(b);
  if (result.proportion) {
    const statistics::PairedCounts counts = count(a, b);
    result.method = "Newcombe's interval of paired proportions; McNemar's exact test";
    result.difference = statistics::paired_proportion_difference(counts);
    result.p = statistics::mcnemar_exact(counts);
  } else {
    std::vector<double> differences;
    for (size_t i = 0; i < a.size(); ++i) differences.push_back(b[i] - a[i]);
    result.method = "Student's interval of the mean paired difference; sign-flip test";
    result.difference = {differences[0], differences[0], differences[0], 0.0};
    if (differences.size() >= 2) result.difference = statistics::student_interval(differences);
    result.p = statistics::sign_flip_test(differences, seed);
  }
  result.detectable = statistics::detectable_effect(result.difference);
  if (result.items < kFewestItems) {
    result.needs = kFewestItems;
    return result;
  }
  result.verdict = statistics::judge_signed(result.difference, margin);
  if (result.verdict == Verdict::kUndecided)
    result.needs = statistics::needed_units(result.items, result.difference.width(), margin);
  return result;
}

void adjust_metrics(std::span<MetricResult> metrics) {
  std::vector<double> p;
  for (const MetricResult& metric : metrics) p.push_back(metric.p);
  const std::vector<double> adjusted = statistics::holm(p);
  for (size_t i = 0; i < metrics.size(); ++i) {
    MetricResult& metric = metrics[i];
    metric.p_adjusted = adjusted[i];
    if (metric.verdict != Verdict::kDiffers || adjusted[i] <= 1.0 - statistics::kConfidence) continue;
    metric.verdict = Verdict::kUndecided;
    metric.needs = statistics::needed_units(metric.items, metric.difference.width(), metric.margin);
  }
}

}  // namespace eadem::audit
