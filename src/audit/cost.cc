#include "audit/cost.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "audit/statistics/multiple.h"
#include "audit/statistics/paired.h"
#include "audit/statistics/random.h"
#include "core/check.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;
using statistics::Estimate;
using statistics::Verdict;

constexpr double kAlpha = 1.0 - statistics::kConfidence;

std::vector<double> log_ratios(const PairedRuns& runs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < runs.a.size(); ++i) {
    EADEM_CHECK(runs.a[i] > 0.0 && runs.b[i] > 0.0);
    const double ratio = std::log(runs.a[i] / runs.b[i]);
    ratios.push_back(runs.rate ? -ratio : ratio);
  }
  return ratios;
}

CostMetric compare(const PairedRuns& runs, double margin) {
  EADEM_CHECK(runs.a.size() == runs.b.size() && runs.a.size() >= 2 && runs.a.size() % 2 == 0 && margin > 0.0);
  const std::vector<double> pairs = log_ratios(runs);
  std::vector<double> blocks;
  for (size_t i = 0; i < pairs.size(); i += 2) blocks.push_back(0.5 * (pairs[i] + pairs[i + 1]));
  CostMetric metric;
  metric.runs = runs;
  metric.margin = margin;
  metric.log_ratio = statistics::hodges_lehmann_interval(blocks);
  metric.p = statistics::wilcoxon_test(blocks);
  return metric;
}

void decide(CostMetric& metric) {
  const auto pairs = static_cast<int64_t>(metric.runs.a.size());
  const double margin = std::log1p(metric.margin);
  const Verdict verdict = statistics::judge_signed(metric.log_ratio, margin);
  if (pairs < 2 * kFewestBlocks) {
    metric.needs_pairs = 2 * kFewestBlocks;
  } else if (verdict == Verdict::kHolds) {
    metric.verdict = CostVerdict::kSame;
  } else if (verdict == Verdict::kDiffers && metric.p_adjusted <= kAlpha) {
    metric.verdict = metric.log_ratio.value > 0.0 ? CostVerdict::kSlower : CostVerdict::kFaster;
  } else {
    metric.needs_pairs = statistics::needed_units(pairs, metric.log_ratio.width(), margin);
    *metric.needs_pairs += *metric.needs_pairs % 2;
  }
}

ordered_json spread_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double median = statistics::median_of(values);
  return {{"median", median}, {"spread", (*most - *least) / median}, {"least", *least}, {"most", *most}};
}

// An estimate of log(time ratio) under a decreasing or increasing function of it.
template <class Function>
ordered_json transformed(const Estimate& e, Function&& f) {
  const double low = f(e.low), high = f(e.high);
  return {{"estimate", f(e.value)}, {"low", std::min(low, high)}, {"high", std::max(low, high)}};
}

}  // namespace

const char* name_of(CostVerdict verdict) {
  switch (verdict) {
    case CostVerdict::kSlower: return "slower";
    case CostVerdict::kFaster: return "faster";
    case CostVerdict::kSame: return "same";
    case CostVerdict::kUndecided: return "undecided";
  }
  return "undecided";
}

std::vector<CostMetric> compare_costs(std::span<const PairedRuns> runs, double margin) {
  std::vector<CostMetric> metrics;
  std::vector<double> p;
  for (const PairedRuns& one : runs) {
    metrics.push_back(compare(one, margin));
    p.push_back(metrics.back().p);
  }
  const std::vector<double> adjusted = statistics::holm(p);
  for (size_t i = 0; i < metrics.size(); ++i) {
    metrics[i].p_adjusted = adjusted[i];
    decide(metrics[i]);
  }
  return metrics;
}

std::string overall_verdict(std::span<const CostMetric> metrics) {
  const auto count = [&](CostVerdict verdict) {
    return std::count_if(metrics.begin(), metrics.end(), [&](const CostMetric& m) { return m.verdict == verdict; });
  };
  const auto slower = count(CostVerdict::kSlower), faster = count(CostVerdict::kFaster);
  if (slower > 0 && faster > 0) return "mixed";
  if (slower > 0) return "slower";
  if (faster > 0) return "faster";
  return count(CostVerdict::kSame) == static_cast<std::ptrdiff_t>(metrics.size()) ? "same" : "undecided";
}

std::vector<bool> block_order(int blocks, uint64_t seed) {
  statistics::Random random(seed, 1);
  std::vector<bool> order;
  for (int i = 0; i < blocks; ++i) order.push_back(random.coin());
  return order;
}

ordered_json to_json(const CostMetric& metric) {
  const PairedRuns& runs = metric.runs;
  std::vector<double> ratios = log_ratios(runs);
  for (double& ratio : ratios) ratio = std::exp(ratio);
  ordered_json object = {{"name", runs.name},      {"title", runs.title},
                         {"unit", runs.unit},      {"what", runs.rate ? "rate" : "time"},
                         {"a", spread_of(runs.a)}, {"b", spread_of(runs.b)}};
  object["time_increase"] = transformed(metric.log_ratio, [](double x) { return std::expm1(x); });
  object["throughput_ratio"] = transformed(metric.log_ratio, [](double x) { return std::exp(-x); });
  object["confidence"] = metric.log_ratio.confidence;
  object["p"] = metric.p;
  object["p_adjusted"] = metric.p_adjusted;
  object["margin"] = metric.margin;
  object["verdict"] = name_of(metric.verdict);
  object["needs_pairs"] = metric.needs_pairs ? ordered_json(*metric.needs_pairs) : ordered_json(nullptr);
  object["spread_of_pairs"] = spread_of(ratios)["spread"];
  object["ratios"] = ratios;
  object["values_a"] = runs.a;
  object["values_b"] = runs.b;
  return object;
}

}  // namespace eadem::audit
