// Two runs beside each other: the strongest level at which they are the same, and what shows it. docs/comparison.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/difference.h"
#include "audit/distribution.h"
#include "core/result.h"

namespace eadem::audit {

struct DiffOptions {
  std::string a, b;              // files of answers (audit/answers.h), or two traces
  std::string about_a, about_b;  // what `eadem info --json` or GET /v1/fingerprint told of each side; empty: nothing
  Level level = Level::kBits;    // asked for
  std::vector<std::string> metrics;
  DistributionMargins margins;
  double quality_margin = 0.02;  // of a metric's mean
};

// The result document ("kind": "diff"). "verdict" is that of the level asked for: holds, differs or undecided;
// "strongest_level" the strongest that holds, null where none does. Errors: a file that cannot be read or used.
Result<nlohmann::ordered_json> compare_runs(const DiffOptions& options);

}  // namespace eadem::audit
