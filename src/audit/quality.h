// Whether a metric of the answers is the same on average: the same items, judged on both sides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "audit/statistics/estimate.h"

namespace eadem::audit {

struct MetricResult {
  std::string metric, method;
  bool proportion = false;  // all values are 0 or 1
  int64_t items = 0;
  double a = 0.0, b = 0.0;          // means
  statistics::Estimate difference;  // B less A
  double p = 1.0;                   // two-sided, of no difference
  double p_adjusted = 1.0;          // over all metrics of a comparison, set by adjust_metrics
  double margin = 0.0;
  statistics::Verdict verdict = statistics::Verdict::kUndecided;
  double detectable = 0.0;
  std::optional<int64_t> needs;  // items that would decide it
};

// a[i] and b[i] are the metric of item i. Proportions: Newcombe's interval and McNemar's exact test; other numbers:
// Student's interval of the mean difference and the sign-flip test, whose flips come from `seed`. margin > 0 is the
// largest difference that does not matter. With fewer than 6 items nothing is decided. At least one item.
MetricResult compare_metric(const std::string& metric, std::span<const double> a, std::span<const double> b,
                            double margin, uint64_t seed);

// Holm's correction over all metrics: a difference stays one only where its adjusted p-value is at most 0.05.
void adjust_metrics(std::span<MetricResult> metrics);

}  // namespace eadem::audit
