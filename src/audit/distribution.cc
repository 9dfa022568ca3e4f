#include "audit/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "audit/statistics/multiple.h"
#include "audit/statistics/paired.h"
#include "audit/statistics/proportions.h"
#include "audit/statistics/two_sample.h"

namespace eadem::audit {
namespace {

using statistics::Estimate;
using statistics::Verdict;

constexpr size_t kFewestPrompts = 6;  // for a statement about prompts
constexpr size_t kPromptsTold = 20;
constexpr double kAlpha = 1.0 - statistics::kConfidence;

// One prompt with partners (equal seeds) first, in the same order, and each seed once.
struct Matched {
  std::vector<const Sample*> a, b;
  size_t paired = 0;
};

Matched match(const PromptSamples& prompt) {
  std::map<uint64_t, const Sample*> a, b;
  for (const Sample& sample : prompt.a) a.try_emplace(sample.seed, &sample);
  for (const Sample& sample : prompt.b) b.try_emplace(sample.seed, &sample);
  Matched matched;
  for (const auto& [seed, sample] : a) {
    const auto partner = b.find(seed);
    if (partner == b.end()) continue;
    matched.a.push_back(sample);
    matched.b.push_back(partner->second);
  }
  matched.paired = matched.a.size();
  for (const auto& [seed, sample] : a) {
    if (!b.contains(seed)) matched.a.push_back(sample);
  }
  for (const auto& [seed, sample] : b) {
    if (!a.contains(seed)) matched.b.push_back(sample);
  }
  return matched;
}

std::string count_of(size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

// Pairs needed until Clopper and Pearson's upper bound falls to the margin, if the share stays what it is.
std::optional<int64_t> needed_pairs(const Estimate& share, int64_t pairs, double margin) {
  if (share.value == 0.0) return static_cast<int64_t>(std::ceil(std::log(0.5 * kAlpha) / std::log1p(-margin)));
  if (share.value >= margin) return std::nullopt;
  return statistics::needed_units(pairs, share.high - share.value, margin - share.value);
}

std::optional<DistributionTest> coupling_test(const std::vector<Matched>& prompts, double margin) {
  int64_t pairs = 0, different = 0;
  for (const Matched& prompt : prompts) {
    pairs += static_cast<int64_t>(prompt.paired);
    for (size_t i = 0; i < prompt.paired; ++i) different += prompt.a[i]->tokens != prompt.b[i]->tokens;
  }
  if (pairs == 0) return std::nullopt;
  DistributionTest test;
  test.name = "coupling";
  test.title = "Answers that differ under the same seed";
  test.statement = "the total variation distance of the answers' distributions is at most this share";
  test.unit = "share of answers";
  test.sample = count_of(static_cast<size_t>(pairs), "pair");
  test.estimate = statistics::clopper_pearson_interval(different, pairs);
  test.margin = margin;
  test.verdict = test.estimate.high <= margin ? Verdict::kHolds : Verdict::kUndecided;
  if (test.verdict == Verdict::kUndecided) test.needs = needed_pairs(test.estimate, pairs, margin);
  test.needs_what = "pairs of answers with the same seed";
  return test;
}

// Tokens at the first positions; what comes after an answer's end is a category of its own.
statistics::TwoSamples categories(const Matched& prompt, size_t positions) {
  statistics::TwoSamples samples;
  samples.positions = positions;
  samples.paired = prompt.paired;
  for (const auto& [side, cells] : {std::pair{&prompt.a, &samples.a}, std::pair{&prompt.b, &samples.b}}) {
    for (const Sample* sample : *side) {
      for (size_t j = 0; j < positions; ++j) cells->push_back(j < sample->tokens.size() ? sample->tokens[j] : -1);
    }
  }
  return samples;
}

size_t longest_of(const std::vector<Matched>& prompts) {
  size_t longest = 1;
  for (const Matched& prompt : prompts) {
    for (const Sample* sample : prompt.a) longest = std::max(longest, sample->tokens.size());
    for (const Sample* sample : prompt.b) longest = std::max(longest, sample->tokens.size());
  }
  return longest;
}

// Prompts with enough answers for two samples, and their names.
struct Sampled {
  std::vector<statistics::TwoSamples> samples;
  std::vector<std::string> names;
  size_t positions = 1, fewest = std::numeric_limits<size_t>::max();  // answers on either side
};

Sampled sampled_of(std::span<const PromptSamples> names, const std::vector<Matched>& prompts, int most_positions) {
  Sampled sampled;
  sampled.positions = std::min(static_cast<size_t>(most_positions), longest_of(prompts));
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t least = std::min(prompts[i].a.size(), prompts[i].b.size());
    if (least < 2) continue;
    sampled.fewest = std::min(sampled.fewest, least);
    sampled.samples.push_back(categories(prompts[i], sampled.positions));
    sampled.names.push_back(names[i].name);
  }
  return sampled;
}

// Which prompts differ, where they do on the whole.
void tell_prompts(const Sampled& sampled, uint64_t seed, DistributionResult& result) {
  std::vector<double> p;
  for (const auto& one : sampled.samples)
    p.push_back(statistics::permutation_test({&one, 1}, seed + p.size() + 1, 999, 10));
  const std::vector<double> q = statistics::benjamini_hochberg(p);
  for (size_t i = 0; i < p.size(); ++i)
    result.prompts.push_back({sampled.names[i], statistics::squared_distance(sampled.samples[i]), p[i], q[i]});
  std::stable_sort(result.prompts.begin(), result.prompts.end(),
                   [](const PromptDistance& x, const PromptDistance& y) { return x.p < y.p; });
  if (result.prompts.size() > kPromptsTold) result.prompts.resize(kPromptsTold);
}

// Of squares to what they are squares of; below zero is none.
Estimate root_of(const Estimate& square) {
  const auto root = [](double value) { return std::sqrt(std::max(0.0, value)); };
  return {root(square.value), root(square.low), root(square.high), square.confidence};
}

std::optional<DistributionTest> two_sample_test(const Sampled& sampled, const DistributionMargins& margins) {
  const auto& samples = sampled.samples;
  if (samples.empty()) return std::nullopt;
  DistributionTest test;
  test.name = "two_sample";
  test.title = "Tokens at the first " + count_of(sampled.positions, "position");
  test.statement = "distance of the token distributions, root mean square over prompts and positions";
  test.unit = "probability";
  test.sample =
      count_of(samples.size(), "prompt") + ", at least " + count_of(sampled.fewest, "answer") + " each on either side";
  test.margin = margins.two_sample;
  test.p = statistics::permutation_test(samples, margins.seed);
  test.needs_what = "answers to each prompt on either side";
  const double square = margins.two_sample * margins.two_sample;
  if (samples.size() < kFewestPrompts) {
    double sum = 0.0;
    for (const statistics::TwoSamples& one : samples) sum += statistics::squared_distance(one);
    test.estimate = {std::sqrt(std::max(0.0, sum / static_cast<double>(samples.size()))), 0.0, std::sqrt(2.0), 1.0};
    test.needs = kFewestPrompts;
    test.needs_what = "prompts with at least two answers on either side";
    return test;
  }
  const Estimate squared = statistics::mean_squared_distance(samples);
  test.estimate = root_of(squared);
  test.detectable = std::sqrt(statistics::detectable_effect(squared));
  if (squared.high <= square) {
    test.verdict = Verdict::kHolds;
  } else {
    test.needs = statistics::needed_units(static_cast<int64_t>(sampled.fewest), squared.width(), square, 1.0);
  }
  return test;
}

// The shift of a token's logit beside all others, from its logprob; NaN where rounding decides it.
double log_odds(double logprob) {
  constexpr double kLikeliest = -0.001;  // log(0.999)
  return logprob < kLikeliest ? logprob - std::log(-std::expm1(logprob)) : std::numeric_limits<double>::quiet_NaN();
}

// All tokens of one prompt's answers as a tree: a node stands for a token after all those on its way, and is there once
// however many answers pass.
class Contexts {
 public:
  void add(const Sample& sample) {
    uint32_t node = 0;
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
      const auto [found, fresh] = nodes_.try_emplace(key(node, sample.tokens[i]), logprobs_.size());
      if (fresh) logprobs_.push_back(i < sample.logprobs.size() ? sample.logprobs[i] : NAN);
      node = static_cast<uint32_t>(found->second);
    }
  }

  // Absolute differences at the nodes that this answer passes for the first time.
  void compare(const Sample& sample, std::vector<double>& differences) {
    uint32_t node = 0;
    for (size_t i = 0; i < std::min(sample.tokens.size(), sample.logprobs.size()); ++i) {
      const auto found = nodes_.find(key(node, sample.tokens[i]));
      if (found == nodes_.end()) return;
      node = static_cast<uint32_t>(found->second);
      const double difference = log_odds(sample.logprobs[i]) - log_odds(logprobs_[node]);
      if (compared_.insert(node).second && !std::isnan(difference)) differences.push_back(std::fabs(difference));
    }
  }

 private:
  static uint64_t key(uint32_t node, int32_t token) { return uint64_t{node} << 32 | static_cast<uint32_t>(token); }

  std::unordered_map<uint64_t, size_t> nodes_;
  std::vector<float> logprobs_ = {NAN};  // of each node; the first is the root
  std::set<uint32_t> compared_;
};

std::optional<DistributionTest> logits_test(const std::vector<Matched>& prompts, double margin) {
  std::vector<double> means;
  size_t tokens = 0;
  for (const Matched& prompt : prompts) {
    Contexts contexts;
    std::vector<double> differences;
    for (const Sample* sample : prompt.a) contexts.add(*sample);
    for (const Sample* sample : prompt.b) contexts.compare(*sample, differences);
    if (differences.empty()) continue;
    means.push_back(statistics::mean_of(differences));
    tokens += differences.size();
  }
  if (means.empty()) return std::nullopt;
  DistributionTest test;
  test.name = "logits";
  test.title = "Log-odds of the same token after the same tokens";
  test.statement = "mean absolute difference of log-odds";
  test.unit = "logits";
  test.sample = count_of(tokens, "token") + " of " + count_of(means.size(), "prompt");
  test.margin = margin;
  test.needs_what = "prompts";
  const double mean = statistics::mean_of(means);
  test.estimate = {mean, 0.0, std::numeric_limits<double>::infinity(), 1.0};
  if (means.size() < kFewestPrompts) {
    test.needs = kFewestPrompts;
    return test;
  }
  test.estimate = statistics::student_interval(means);
  test.estimate.low = std::max(0.0, test.estimate.low);
  test.p = std::min(1.0, 2.0 * statistics::student_above(means, margin));
  test.detectable = statistics::detectable_effect(test.estimate);
  if (test.estimate.high <= margin) {
    test.verdict = Verdict::kHolds;
  } else {
    test.needs = statistics::needed_units(static_cast<int64_t>(means.size()), test.estimate.high - mean,
                                          std::fabs(mean - margin));
  }
  return test;
}

// Holm over the tests that can find a difference.
void adjust(std::vector<DistributionTest>& tests) {
  std::vector<double> p;
  for (const DistributionTest& test : tests) {
    if (test.p) p.push_back(*test.p);
  }
  const std::vector<double> adjusted = statistics::holm(p);
  size_t i = 0;
  for (DistributionTest& test : tests) {
    if (!test.p) continue;
    test.p_adjusted = adjusted[i++];
    if (test.verdict == Verdict::kUndecided && *test.p_adjusted <= kAlpha) {
      test.verdict = Verdict::kDiffers;
      test.needs.reset();
    }
  }
}

void conclude(DistributionResult& result) {
  bool answers_hold = false, all_hold = true;
  std::string needs, differing;
  for (const DistributionTest& test : result.tests) {
    if (test.verdict == Verdict::kDiffers) differing += (differing.empty() ? "" : " and ") + test.name;
    if (test.name == "logits") {
      all_hold = test.verdict == Verdict::kHolds;
    } else {
      answers_hold |= test.verdict == Verdict::kHolds;
    }
  }
  for (const DistributionTest& test : result.tests) {
    if (!test.needs || (test.name != "logits" && answers_hold)) continue;
    needs += (needs.empty()           ? ""
              : test.name == "logits" ? ", and "
                                      : ", or ") +
             std::to_string(*test.needs) + " " + test.needs_what + " (" + test.name + ")";
  }
  if (!differing.empty()) {
    result.verdict = Verdict::kDiffers;
    result.statement = "the distributions differ: " + differing;
  } else if (answers_hold && all_hold) {
    result.verdict = Verdict::kHolds;
    result.statement = "one distribution within the margins, at 95 % confidence";
  } else {
    result.statement =
        "undecided: needs " + (needs.empty() ? "answers to the same prompts, several seeds each" : needs);
  }
}

}  // namespace

DistributionResult compare_distributions(std::span<const PromptSamples> prompts, const DistributionMargins& margins) {
  DistributionResult result;
  std::vector<Matched> matched;
  matched.reserve(prompts.size());
  for (const PromptSamples& prompt : prompts) matched.push_back(match(prompt));
  if (auto test = coupling_test(matched, margins.coupling)) result.tests.push_back(*test);
  const Sampled sampled = sampled_of(prompts, matched, margins.positions);
  if (auto test = two_sample_test(sampled, margins)) result.tests.push_back(*test);
  if (auto test = logits_test(matched, margins.logits)) result.tests.push_back(*test);
  adjust(result.tests);
  for (const DistributionTest& test : result.tests) {
    if (test.name == "two_sample" && test.verdict == Verdict::kDiffers) tell_prompts(sampled, margins.seed, result);
  }
  conclude(result);
  return result;
}

}  // namespace eadem::audit
