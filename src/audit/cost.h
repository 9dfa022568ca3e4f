// What the contract costs: paired, interleaved runs of two modes, compared by the ratio of their times.
// docs/comparison.md says how to read it.
//
// Runs come in blocks of four, ABBA or BAAB by the toss of a seeded coin. A drift that is linear over a block cancels
// in it, and since the coin gives what is left of a block's noise a random sign, blocks are symmetric about the true
// ratio and uncorrelated however the noise hangs together: the block is the unit (R. A. Fisher, "The Design of
// Experiments", 1935, on why blocks are randomised).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audit/statistics/estimate.h"

namespace eadem::audit {

// Fewest blocks (of two pairs) that can prove anything about five metrics at once: 5 * 2^(1 - 8) < 0.05.
inline constexpr int kFewestBlocks = 8;

// One metric of all runs: pair i is (a[i], b[i]), and pairs 2 j and 2 j + 1 are a block. Values are above zero.
struct PairedRuns {
  std::string name, title, unit;
  bool rate = false;  // tokens per second, else seconds
  std::vector<double> a, b;
};

enum class CostVerdict : uint8_t { kSlower, kFaster, kSame, kUndecided };  // of A beside B
const char* name_of(CostVerdict verdict);

struct CostMetric {
  PairedRuns runs;
  statistics::Estimate log_ratio;  // log(time of A / time of B)
  double p = 1.0, p_adjusted = 1.0;
  double margin = 0.0;  // of the time increase
  CostVerdict verdict = CostVerdict::kUndecided;
  std::optional<int64_t> needs_pairs;
};

// An even number of pairs, at least two. The interval of the median ratio is Hodges and Lehmann's, the test Wilcoxon's,
// over blocks. "same" where the whole interval lies within the margin (from 1 / (1 + margin) to 1 + margin); slower or
// faster where it does not contain 1, nor lie within, and Holm's p-value over all metrics is at most 0.05; else
// undecided and how many pairs would decide. Below kFewestBlocks blocks all is undecided.
std::vector<CostMetric> compare_costs(std::span<const PairedRuns> runs, double margin);

// "slower" where a metric is and none is faster (and likewise), "mixed" where both are, "same" where all are, else
// "undecided".
std::string overall_verdict(std::span<const CostMetric> metrics);

// The order of the runs: for each block whether it is ABBA, else BAAB.
std::vector<bool> block_order(int blocks, uint64_t seed);

// A metric as the document has it: times and rates, the time increase (time of A / time of B - 1) and the throughput
// ratio (1 / (1 + time increase)) with intervals.
nlohmann::ordered_json to_json(const CostMetric& metric);

}  // namespace eadem::audit
