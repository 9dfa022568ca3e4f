// Whether answers of two runs come from one distribution, prompt by prompt, within declared margins. docs/comparison.md
// says what each test means.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audit/statistics/estimate.h"

namespace eadem::audit {

// One answer. logprobs: of the tokens, NaN where masked; empty where none were told.
struct Sample {
  uint64_t seed = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
};

// All answers of both runs to one request, but for its seed.
struct PromptSamples {
  std::string name;  // for people
  std::vector<Sample> a, b;
};

struct DistributionMargins {
  double coupling = 0.05;   // share of whole answers that may differ
  double two_sample = 0.1;  // of a token's probability, root mean square over prompts and positions
  double logits = 0.005;    // mean absolute difference of log-odds
  int positions = 16;       // of an answer's tokens that two_sample looks at
  uint64_t seed = 1;        // of the permutations
};

// One test beside its margin. `needs`: how many of `needs_what` would decide it.
struct DistributionTest {
  std::string name, title, statement, unit, sample;
  statistics::Estimate estimate;
  double margin = 0.0;
  std::optional<double> p, p_adjusted;
  statistics::Verdict verdict = statistics::Verdict::kUndecided;
  std::optional<double> detectable;
  std::optional<int64_t> needs;
  std::string needs_what;
};

// A prompt by itself; q is p after Benjamini and Hochberg over all prompts.
struct PromptDistance {
  std::string name;
  double squared_distance = 0.0, p = 1.0, q = 1.0;
};

struct DistributionResult {
  statistics::Verdict verdict = statistics::Verdict::kUndecided;
  std::string statement;
  std::vector<DistributionTest> tests;
  std::vector<PromptDistance> prompts;  // where two_sample differs: those with the smallest p first, at most 20
};

// Tests, each where the data allow it:
//   coupling    Answers to the same request and seed are one joint draw of both distributions, so the share that
//               differs bounds their total variation distance (the coupling inequality: T. Lindvall, "Lectures on the
//               Coupling Method", 1992). Clopper and Pearson's interval. Can hold; never proves a difference.
//   two_sample  statistics/two_sample.h, over prompts with at least two answers on either side.
//   logits      The same token after the same tokens: the difference of its log-odds, which is the shift of its logit
//               beside all others. Tokens likelier than 0.999 are left out (rounding decides theirs). Mean over a
//               prompt, then over prompts.
// The level differs where any test does after Holm's correction; it holds where coupling or two_sample holds and logits
// too, if there are any (every claim that is joined must hold, so none needs a correction: R. L. Berger,
// "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 1982). Repeated seeds of a request
// count once.
DistributionResult compare_distributions(std::span<const PromptSamples> prompts, const DistributionMargins& margins);

}  // namespace eadem::audit
