// The paired cost of the contract, measured, and two such results beside each other.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "audit/speed.h"
#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit {

struct CostOptions {
  EngineOptions engine;  // but for the mode: both are run
  Workload workload;
  int pairs = 20;        // even
  double margin = 0.05;  // a time increase that does not matter
  uint64_t seed = 1;     // of the order of runs
};

struct CostWatch {
  std::function<void(int done, int all)> progress;
  std::function<bool()> goes_on;  // false: an interrupt came
};

// Measures memory in a process of its own for each mode (so this one must have no threads yet), then opens both engines
// in this process, runs each once to warm up, and runs the blocks of audit/cost.h. The result document ("kind":
// "cost"), "a" the contract, "b" free order; `machine` goes into it. Errors: no free counterpart (mma16 on a CPU; a
// device without cuBLASLt); a request that does not fit; an interrupt.
Result<nlohmann::ordered_json> run_cost(const CostOptions& options, const nlohmann::ordered_json& machine,
                                        const CostWatch& watch);

// What became of the cost between two such documents: each has free order as its yardstick, so that machines' moods
// cancel. "time_increase" is that of the contract's cost: (1 + increase of `now`) / (1 + increase of `before`) - 1; "a"
// is `now`. Errors: no such documents; unlike runs, with all that differs.
Result<nlohmann::ordered_json> compare_saved_costs(const nlohmann::ordered_json& before,
                                                   const nlohmann::ordered_json& now, double margin);

// The document as a Markdown page.
std::string cost_markdown(const nlohmann::ordered_json& document);

}  // namespace eadem::audit
