// The drift gate: answers of today beside those of a baseline. What moved, how far and from where on; whether the
// identity moved with it, which is a change that somebody may approve, or did not, which is a bug.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/approvals.h"
#include "audit/baseline.h"

namespace eadem::audit {

// Two tokens whose logprobs lie at most so far apart (in nats) are a near tie: one has at least 0.95 of the other's
// probability.
inline constexpr double kNearTie = 0.05;

// Between two answers, over the steps that they had the same tokens before: up to the first differing token, which is
// included. Of a brief baseline nothing is known of it.
struct Distance {
  uint64_t steps = 0;
  double logprob_max = 0, logprob_mean = 0;  // of tokens that both sides tell, in nats
  // Kullback-Leibler divergence of now from the baseline, in nats: of the tokens that both tell among the most likely,
  // and all others together. A lower bound of the whole one.
  double kl_max = 0, kl_mean = 0;
};

enum class AnswerVerdict : uint8_t { kPass, kApproved, kDrift, kNotRun };

struct AnswerResult {
  RecordedAnswer was, is;
  AnswerVerdict verdict = AnswerVerdict::kPass;
  // null, or {"request", "what", "step", "expected", "found"}; what: "token", "logprob", "top_logprobs", "text",
  // "finish_reason", "logprobs_hash", "prompt", "answer"; step from 0, left out where the field is no list.
  nlohmann::ordered_json first_difference;
  std::optional<Distance> distance;
  uint64_t tokens_different = 0;
  // Between the two most likely tokens of the baseline: at the first differing token, or the least of all steps.
  std::optional<double> margin;
  std::optional<int> approval;  // index of the one that covers it
};

struct FieldChange {
  std::string field, was, is;
};

struct GateResult {
  bool passed = false;
  bool identity_changed = false;
  std::vector<FieldChange> identity_changes, deployment_changes;
  std::vector<AnswerResult> answers;
  std::vector<Approval> approvals;
  uint64_t pass = 0, drift = 0, approved = 0, not_run = 0;
};

// `was` and `is` must be of the same corpus; what was asked on one side alone is left out.
GateResult compare(const Baseline& was, const Baseline& is, std::vector<Approval> approvals);

// One sentence that a person reads first.
std::string summary_of(const GateResult& result);
// A line for an answer that drifted or was approved.
std::string describe(const AnswerResult& answer, const Engine& engine);

// What the gate's reports hold: "kind": "gate" and everything above.
nlohmann::ordered_json to_json(const GateResult& result, const Baseline& was, const Baseline& is, const Engine& engine);

}  // namespace eadem::audit
