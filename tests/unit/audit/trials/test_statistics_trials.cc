// `eadem diff` and `eadem cost` on planted differences: 1,000 simulated trials of each, with fixed seeds, through the
// functions that the commands use. A trial begins with a small sample and, where the tool says "undecided: needs N",
// repeats with fresh data of that size. Wanted: the right verdict in at least 95 % of the trials with a difference,
// a false alarm in at most 7 % of those without, and 95 % intervals that cover the truth in at least 93 % (of all that
// the tool gives on the way: the last ones alone would be a choice).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <vector>

#include "audit/cost.h"
#include "audit/distribution.h"
#include "audit/quality.h"
#include "audit/statistics/random.h"

namespace eadem::audit {
namespace {

using statistics::Estimate;
using statistics::Random;
using statistics::Verdict;

constexpr int kTrials = 1000, kMostRounds = 4;
constexpr int kSlowTrials = 300;  // of what takes long and is no planted difference of the contract's

double normal(Random& random) {
  return std::sqrt(-2.0 * std::log1p(-random.uniform())) * std::cos(6.283185307179586 * random.uniform());
}

bool covers(const Estimate& estimate, double truth) { return estimate.low <= truth && truth <= estimate.high; }

struct Rates {
  int trials = kTrials;
  int right = 0, alarms = 0, held = 0, undecided = 0;
  int64_t covered = 0, intervals = 0, units = 0;
};

double share(int64_t count, int64_t of) { return static_cast<double>(count) / static_cast<double>(of); }

void print(const char* what, const Rates& planted, const Rates& none) {
  std::printf(
      "%s: %d trials each: planted found %.1f %% (%d undecided; %.0f units), none: false alarms %.1f %%, "
      "sameness shown %.1f %% (%d undecided; %.0f units); coverage %.1f %% and %.1f %%\n",
      what, planted.trials, 100 * share(planted.right, planted.trials), planted.undecided,
      share(planted.units, planted.trials), 100 * share(none.alarms, none.trials), 100 * share(none.held, none.trials),
      none.undecided, share(none.units, none.trials), 100 * share(planted.covered, planted.intervals),
      100 * share(none.covered, none.intervals));
}

void expect_good(const Rates& planted, const Rates& none) {
  EXPECT_GE(share(planted.right, planted.trials), 0.95);
  EXPECT_LE(share(none.alarms, none.trials), 0.07);
  EXPECT_GE(share(none.held, none.trials), 0.90);
  EXPECT_GE(share(planted.covered, planted.intervals), 0.93);
  EXPECT_GE(share(none.covered, none.intervals), 0.93);
}

// --- Time. Noise of a shared machine: a drift over the session, hours' swings, noise that hangs together from run to
// run, each metric's own, and now and then a run that something else delayed.
struct Noise {
  const char* name;
  double own;
};
constexpr Noise kMetrics[] = {
    {"ttft", 0.02}, {"prefill", 0.02}, {"decode", 0.015}, {"itl_p50", 0.01}, {"itl_p99", 0.08}};

std::vector<PairedRuns> simulate_session(Random& random, int pairs, double slowdown, uint64_t seed) {
  std::vector<PairedRuns> metrics;
  for (const Noise& metric : kMetrics) {
    metrics.push_back(
        {metric.name, metric.name, "s", metric.own == 0.015 || metric.name == std::string("prefill"), {}, {}});
  }
  const double drift = 0.2 * normal(random) / (2.0 * pairs), swing = 0.03 * normal(random);
  double memory = 0.0;
  int run = 0;
  const auto draw = [&](bool is_a) {
    memory = 0.6 * memory + 0.03 * normal(random);
    const double machine = drift * run + swing * std::sin(0.07 * run) + memory;
    const double spike = random.uniform() < 0.03 ? -0.5 * std::log1p(-random.uniform()) : 0.0;
    ++run;
    for (size_t i = 0; i < metrics.size(); ++i) {
      const double time = std::exp(machine + spike + kMetrics[i].own * normal(random)) * (is_a ? 1.0 + slowdown : 1.0);
      (is_a ? metrics[i].a : metrics[i].b).push_back(metrics[i].rate ? 100.0 / time : time);
    }
  };
  for (const bool abba : block_order(pairs / 2, seed)) {
    for (const bool is_a : {abba, !abba, !abba, abba}) draw(is_a);
  }
  return metrics;
}

Rates run_cost_trials(double slowdown) {
  constexpr double kMargin = 0.10;
  Rates rates;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(static_cast<uint64_t>(trial), slowdown > 0.0 ? 10 : 11);
    std::vector<CostMetric> metrics;
    int64_t pairs = 2 * kFewestBlocks;
    for (int round = 0; round < kMostRounds; ++round) {
      metrics = compare_costs(
          simulate_session(random, static_cast<int>(pairs), slowdown, static_cast<uint64_t>(trial * 10 + round)),
          kMargin);
      int64_t needs = 0;
      for (const CostMetric& metric : metrics) needs = std::max(needs, metric.needs_pairs.value_or(0));
      rates.units += pairs;
      for (const CostMetric& metric : metrics) {
        rates.covered += covers(metric.log_ratio, std::log1p(slowdown));
        ++rates.intervals;
      }
      if (needs == 0) break;
      pairs = std::min<int64_t>(needs, 2000);
    }
    const std::string verdict = overall_verdict(metrics);
    rates.right += verdict == (slowdown > 0.0 ? "slower" : "same");
    rates.alarms += verdict == "slower" || verdict == "faster" || verdict == "mixed";
    rates.held += verdict == "same";
    rates.undecided += verdict == "undecided";
  }
  return rates;
}

TEST(Trials, ASlowdownOfTenPercent) {
  const Rates planted = run_cost_trials(0.10), none = run_cost_trials(0.0);
  print("10 % slowdown, margin 10 %", planted, none);
  expect_good(planted, none);
}

// The control: all runs of one side, then all of the other. The drift becomes a difference.
TEST(Trials, RunsThatAreNotInterleavedGiveFalseAlarms) {
  constexpr int kPairs = 40;
  int alarms = 0;
  for (int trial = 0; trial < kSlowTrials; ++trial) {
    Random random(static_cast<uint64_t>(trial), 12);
    std::vector<PairedRuns> session = simulate_session(random, kPairs, 0.0, 1), apart = session;
    const std::vector<bool> order = block_order(kPairs / 2, 1);
    for (size_t m = 0; m < session.size(); ++m) {
      std::vector<double> in_time;
      size_t a = 0, b = 0;
      for (const bool abba : order) {
        for (const bool is_a : {abba, !abba, !abba, abba})
          in_time.push_back(is_a ? session[m].a[a++] : session[m].b[b++]);
      }
      apart[m].a.assign(in_time.begin(), in_time.begin() + kPairs);
      apart[m].b.assign(in_time.begin() + kPairs, in_time.end());
    }
    const std::string verdict = overall_verdict(compare_costs(apart, 0.10));
    alarms += verdict == "slower" || verdict == "faster" || verdict == "mixed";
  }
  std::printf("not interleaved: false alarms %.1f %%\n", 100 * share(alarms, kSlowTrials));
  EXPECT_GT(share(alarms, kSlowTrials), 0.07);
}

// --- Accuracy. Items differ in how hard they are and in how easily their answer flips between two runs.
struct Judged {
  std::vector<double> a, b;
};

Judged judge_items(Random& random, int64_t items, double change) {
  constexpr double kFlips = 0.08;
  Judged judged;
  for (int64_t i = 0; i < items; ++i) {
    // A flips at `flips` on average; the change takes from one side of the flips what it gives to the other.
    const double easy = random.uniform(), flips = kFlips * 2.0 * random.uniform();
    const double both = (1.0 - flips) * easy, lost = 0.5 * (flips - change), won = 0.5 * (flips + change);
    const double u = random.uniform();
    const bool is_both = u < both, is_lost = !is_both && u < both + std::max(0.0, lost);
    const bool is_won = !is_both && !is_lost && u < both + std::max(0.0, lost) + std::max(0.0, won);
    judged.a.push_back(is_both || is_lost);
    judged.b.push_back(is_both || is_won);
  }
  return judged;
}

using Judge = std::function<Judged(Random&, int64_t, double)>;

Rates run_quality_trials(const Judge& judge, double change, double truth, int64_t first, double margin) {
  Rates rates;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(static_cast<uint64_t>(trial), change != 0.0 ? 20 : 21);
    MetricResult result;
    int64_t items = first;
    for (int round = 0; round < kMostRounds; ++round) {
      const Judged judged = judge(random, items, change);
      result = compare_metric("correct", judged.a, judged.b, margin, static_cast<uint64_t>(trial));
      adjust_metrics({&result, 1});
      rates.units += items;
      rates.covered += covers(result.difference, truth);
      ++rates.intervals;
      if (!result.needs) break;
      items = std::min<int64_t>(*result.needs, 100'000);
    }
    rates.right += change != 0.0
                       ? result.verdict == Verdict::kDiffers && (result.difference.value < 0.0) == (truth < 0.0)
                       : result.verdict == Verdict::kHolds;
    rates.alarms += result.verdict == Verdict::kDiffers;
    rates.held += result.verdict == Verdict::kHolds;
    rates.undecided += result.verdict == Verdict::kUndecided;
  }
  return rates;
}

// The change that judge_items really makes, for a flip cannot have a negative probability.
double true_change(double change) {
  constexpr double kFlips = 0.08;
  double sum = 0.0;
  constexpr int kSteps = 1'000'000;
  for (int i = 0; i < kSteps; ++i) {
    const double flips = kFlips * 2.0 * (i + 0.5) / kSteps;
    sum += std::max(0.0, 0.5 * (flips + change)) - std::max(0.0, 0.5 * (flips - change));
  }
  return sum / kSteps;
}

TEST(Trials, AnAccuracyThatFallsByTwoPercent) {
  double low = -0.1, high = 0.0;  // the change to ask for, so that 2 % come out
  for (int i = 0; i < 40; ++i) (true_change(0.5 * (low + high)) < -0.02 ? low : high) = 0.5 * (low + high);
  const Rates planted = run_quality_trials(judge_items, low, -0.02, 300, 0.02);
  const Rates none = run_quality_trials(judge_items, 0.0, 0.0, 300, 0.02);
  print("2 % accuracy, margin 2 %", planted, none);
  expect_good(planted, none);
}

// Scores from 0 to 1: most do not move, some move a little, a few much.
Judged score_items(Random& random, int64_t items, double change) {
  Judged judged;
  for (int64_t i = 0; i < items; ++i) {
    const double before = random.uniform(), u = random.uniform();
    const double moves = u < 0.7 ? 0.0 : u < 0.95 ? 0.04 * normal(random) : 0.15 * normal(random);
    judged.a.push_back(before);
    judged.b.push_back(before + moves + change);
  }
  return judged;
}

TEST(Trials, AScoreThatFallsByTwoPercent) {
  const Rates planted = run_quality_trials(score_items, -0.02, -0.02, 30, 0.02);
  const Rates none = run_quality_trials(score_items, 0.0, 0.0, 30, 0.02);
  print("2 % score, margin 2 %", planted, none);
  expect_good(planted, none);
}

// --- Logits. A model's logits at a context are random; the other run's have the noise of another order of addition,
// and where a shift is planted, half of the vocabulary (another half for each prompt) is raised by it.
struct Model {
  int vocabulary = 24;
  double shift = 0.0, noise = 0.001;

  // Both sides' logprobs after `context`.
  struct Logprobs {
    std::vector<double> a, b;
  };
  Logprobs after(uint64_t prompt, uint64_t context) const {
    Random random(context, 30);
    const uint64_t raised = numerics::splitmix64(prompt);
    Logprobs both;
    for (int token = 0; token < vocabulary; ++token) {
      both.a.push_back(2.0 * normal(random));
      both.b.push_back(both.a.back() + noise * normal(random) + ((raised >> token & 1) != 0 ? shift : 0.0));
    }
    for (std::vector<double>* logits : {&both.a, &both.b}) {
      double sum = 0.0;
      for (const double logit : *logits) sum += std::exp(logit);
      for (double& logit : *logits) logit -= std::log(sum);
    }
    return both;
  }
};

// One prompt's contexts, each computed once.
class Speaker {
 public:
  Speaker(const Model& model, uint64_t prompt) : model_(model), prompt_(prompt) {}

  // An answer of a few tokens. Equal seeds have equal noise, as the engine's have.
  Sample answer(uint64_t seed, bool is_a, int tokens) {
    Sample sample;
    sample.seed = seed;
    uint64_t context = numerics::splitmix64(prompt_ + 1);
    Random random(seed, 31);
    for (int i = 0; i < tokens; ++i) {
      auto found = known_.find(context);
      if (found == known_.end()) found = known_.emplace(context, model_.after(prompt_, context)).first;
      const std::vector<double>& logprobs = is_a ? found->second.a : found->second.b;
      const size_t token = draw(logprobs, random);
      sample.tokens.push_back(static_cast<int32_t>(token));
      sample.logprobs.push_back(static_cast<float>(logprobs[token]));
      context = numerics::splitmix64(context + token + 1);
    }
    return sample;
  }

 private:
  // The race that the engine draws by: each token has an arrival time of its own, and the first wins.
  static size_t draw(const std::vector<double>& logprobs, Random& random) {
    size_t best = 0;
    double first = 1e300;
    for (size_t token = 0; token < logprobs.size(); ++token) {
      const double time = -std::log1p(-random.uniform()) * std::exp(-logprobs[token]);
      if (time < first) first = time, best = token;
    }
    return best;
  }

  const Model& model_;
  uint64_t prompt_;
  std::map<uint64_t, Model::Logprobs> known_;
};

struct Design {
  int64_t prompts, seeds;
  int tokens;
  bool same_seeds, logprobs;
};

std::vector<PromptSamples> simulate_answers(const Model& model, const Design& design, uint64_t trial) {
  std::vector<PromptSamples> prompts;
  for (int64_t i = 0; i < design.prompts; ++i) {
    const uint64_t prompt = numerics::splitmix64(trial * 1'000'003 + static_cast<uint64_t>(i));
    PromptSamples samples;
    Speaker speaker(model, prompt);
    for (int64_t k = 0; k < design.seeds; ++k) {
      const uint64_t seed = numerics::splitmix64(prompt ^ static_cast<uint64_t>(k));
      samples.a.push_back(speaker.answer(seed, true, design.tokens));
      samples.b.push_back(speaker.answer(design.same_seeds ? seed : ~seed, false, design.tokens));
      if (design.logprobs) continue;
      samples.a.back().logprobs.clear();
      samples.b.back().logprobs.clear();
    }
    prompts.push_back(std::move(samples));
  }
  return prompts;
}

const DistributionTest* find(const DistributionResult& result, const std::string& name) {
  for (const DistributionTest& test : result.tests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

// The larger sample that the tool asks for.
Design larger(Design design, const DistributionResult& result) {
  for (const DistributionTest& test : result.tests) {
    if (!test.needs) continue;
    if (test.name == "logits") design.prompts = std::max(design.prompts, *test.needs);
    if (test.name == "two_sample" && !design.same_seeds) design.seeds = std::max(design.seeds, *test.needs);
    if (test.name == "coupling")
      design.prompts = std::max(design.prompts, (*test.needs + design.seeds - 1) / design.seeds);
  }
  return design;
}

Rates run_distribution_trials(const Model& model, const Design& first, const DistributionMargins& margins,
                              const std::string& test, double truth, int trials) {
  Rates rates;
  rates.trials = trials;
  for (int trial = 0; trial < trials; ++trial) {
    Design design = first;
    DistributionResult result;
    for (int round = 0; round < kMostRounds; ++round) {
      const auto id = static_cast<uint64_t>((trial * kMostRounds + round) * 2 + (model.shift > 0.0));
      result = compare_distributions(simulate_answers(model, design, id), margins);
      rates.units += design.prompts * design.seeds;
      rates.covered += covers(find(result, test)->estimate, truth);
      ++rates.intervals;
      if (result.verdict != Verdict::kUndecided) break;
      design = larger(design, result);
    }
    rates.right += result.verdict == (model.shift > 0.0 ? Verdict::kDiffers : Verdict::kHolds);
    rates.alarms += result.verdict == Verdict::kDiffers;
    rates.held += result.verdict == Verdict::kHolds;
    rates.undecided += result.verdict == Verdict::kUndecided;
  }
  return rates;
}

// What a very large sample says the truth is.
double true_logit_distance(const Model& model, const Design& design) {
  Design large = design;
  large.prompts = 20'000;
  return find(compare_distributions(simulate_answers(model, large, 987'654'321), {}), "logits")->estimate.value;
}

TEST(Trials, ALogitShiftOfTwoHundredths) {
  const Design design = {8, 4, 2, true, true};
  Model planted_model, same_model;
  planted_model.shift = 0.02;
  const double distance = true_logit_distance(planted_model, design), rest = true_logit_distance(same_model, design);
  std::printf("mean log-odds distance: %.5f planted, %.5f of noise alone\n", distance, rest);
  const Rates planted = run_distribution_trials(planted_model, design, {}, "logits", distance, kTrials);
  const Rates none = run_distribution_trials(same_model, design, {}, "logits", rest, kTrials);
  print("0.02 logit shift, margin 0.005", planted, none);
  expect_good(planted, none);
}

// Without logprobs and with other seeds on either side, tokens alone must tell. The true distance is known here: the
// distributions are.
double true_distance(const Model& model) {
  double sum = 0.0;
  constexpr int kPrompts = 20'000;
  for (uint64_t i = 0; i < kPrompts; ++i) {
    const uint64_t prompt = numerics::splitmix64(i);
    const Model::Logprobs both = model.after(prompt, numerics::splitmix64(prompt + 1));
    for (size_t t = 0; t < both.a.size(); ++t) sum += std::pow(std::exp(both.a[t]) - std::exp(both.b[t]), 2);
  }
  return std::sqrt(sum / kPrompts);
}

TEST(Trials, TokensAloneUnderOtherSeeds) {
  const Design design = {40, 4, 1, false, false};
  Model planted_model, same_model;
  planted_model.shift = 1.5;
  DistributionMargins margins;
  margins.two_sample = 0.18;
  const double distance = true_distance(planted_model);
  std::printf("distance of token distributions: %.4f planted, %.6f of noise alone\n", distance,
              true_distance(same_model));
  const Rates planted = run_distribution_trials(planted_model, design, margins, "two_sample", distance, kSlowTrials);
  const Rates none =
      run_distribution_trials(same_model, design, margins, "two_sample", true_distance(same_model), kSlowTrials);
  print("1.5 logit shift by tokens alone, margin 0.18", planted, none);
  expect_good(planted, none);
}

}  // namespace
}  // namespace eadem::audit
