// How close the two best tokens of a position lie, beside what free-order arithmetic moves there: where an engine that
// sums in whatever order suits it could draw another token, and where it does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/corpus.h"
#include "eadem/engine.h"

namespace eadem::audit {

// One way to run the same tokens again: sums in free order depend on the workers and on the rows of a step.
struct NearTieRun {
  int threads = 1, rows = 1;
  bool operator==(const NearTieRun&) const = default;
};
std::string name_of(const NearTieRun& run);  // "threads=3 rows=8"

struct NearTieOptions {
  EngineOptions engine;  // of the contract; its mode is "contract"
  std::vector<NearTieRun> runs = {{1, 8}, {3, 8}, {1, 512}, {3, 512}};
  int max_tokens = 32;  // most positions of an answer
  // Told after each answer of each run; false ends the measurement.
  std::function<bool(uint64_t done, uint64_t total, std::string_view run)> progress;
};

// Of one token of an answer, under the contract: `token` is the likeliest, `runner_up` the next. All in nats.
struct NearTiePosition {
  int32_t token = 0, runner_up = 0;
  double margin = 0;       // logprob of the one less that of the other; 0: an exact tie, which the token id decides
  double difference = 0;   // largest change of that margin (its sign included) in any run
  std::vector<int> flips;  // runs, by number, in which another token was the likeliest
  std::string text, runner_up_text;  // as the vocabulary spells them

  // The order of the sums can decide here: the margin lies within what it moves. Each flip is at such a position.
  bool at_risk() const { return difference > 0 && margin <= difference; }
};

struct NearTiePrompt {
  std::string id, category;
  bool forced = false;  // along golden_token_ids rather than the greedy path
  std::vector<NearTiePosition> positions;
};

struct NearTies {
  std::string model, numerics, free_numerics, identity, deployment;
  std::vector<NearTieRun> runs;
  // The control: the first run's threads and rows again, under the contract. Anything but 0 is a bug of this engine.
  double control_difference = 0;
  uint64_t control_tokens = 0;
  std::vector<NearTiePrompt> prompts;
  struct Skipped {
    std::string id, reason;
  };
  std::vector<Skipped> skipped;  // what this model cannot be asked
};

// What runs tell of one position; each token carries the likeliest tokens of its row, at least two under the contract.
NearTiePosition measure_position(const SampledToken& contract, std::span<const SampledToken> runs);

// Each prompt of the corpus along its greedy path (seeds, penalties and guides left aside), or along its
// golden_token_ids; then the same tokens in free order, once for each run. Errors: an engine that cannot be opened
// (mma16 has no free order on a CPU), no prompt that this model can be asked, an answer that failed, a measurement that
// was ended.
Result<NearTies> find_near_ties(const Corpus& corpus, const NearTieOptions& options);

}  // namespace eadem::audit
