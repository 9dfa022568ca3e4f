#include "audit/gate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace eadem::audit {
namespace {

float ln(double p) { return static_cast<float>(std::log(p)); }

// A step whose likely tokens are 1, 2, ... with these probabilities; token 1 was drawn.
SampledToken step(const std::vector<double>& p, int32_t drawn = 1) {
  SampledToken token{.token = drawn, .logprob = ln(p[static_cast<size_t>(drawn - 1)]), .top = {}};
  for (size_t i = 0; i < p.size(); ++i) token.top.push_back({static_cast<int32_t>(i + 1), ln(p[i])});
  return token;
}

RecordedAnswer answer(const std::string& id, std::vector<SampledToken> tokens) {
  RecordedAnswer made;
  made.id = id;
  made.category = "c";
  made.prompt_hash = "p";
  made.tokens = std::move(tokens);
  made.logprobs_hash = std::to_string(made.tokens.size()) + std::to_string(made.tokens[0].logprob);
  made.text = "t";
  made.finish_reason = "length";
  return made;
}

Baseline baseline(std::vector<RecordedAnswer> answers, const std::string& weights = "w", int threads = 1) {
  Baseline made;
  made.identity = "identity of " + weights;
  made.identity_parts = {{"weights", weights}, {"numerics", "n"}};
  made.deployment_parts = {{"threads", threads}, {"os", "x"}};
  made.answers = std::move(answers);
  return made;
}

TEST(Gate, EqualAnswersPass) {
  const Baseline was = baseline({answer("a", {step({0.5, 0.3}), step({0.6, 0.1})})});
  const GateResult result = compare(was, was, {});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.answers[0].distance->kl_max, 0.0);
  EXPECT_NEAR(*result.answers[0].margin, std::log(0.5 / 0.3), 1e-6) << "the least of its steps";
  EXPECT_EQ(summary_of(result), "All of 1 answer are equal.");
}

TEST(Gate, DistancesAreThoseOfTheirDefinition) {
  const Baseline was = baseline({answer("a", {step({0.5, 0.3})})}), is = baseline({answer("a", {step({0.4, 0.4})})});
  const GateResult result = compare(was, is, {});
  const AnswerResult& moved = result.answers[0];
  EXPECT_EQ(moved.verdict, AnswerVerdict::kDrift);
  EXPECT_EQ(moved.first_difference["what"], "logprob");
  EXPECT_EQ(moved.first_difference["step"], 0);
  EXPECT_NEAR(moved.distance->logprob_max, std::log(0.4 / 0.3), 1e-6);
  EXPECT_NEAR(moved.distance->logprob_mean, (std::log(0.4 / 0.3) + std::log(0.5 / 0.4)) / 2, 1e-6);
  EXPECT_NEAR(moved.distance->kl_max, 0.5 * std::log(0.5 / 0.4) + 0.3 * std::log(0.3 / 0.4), 1e-6);
  EXPECT_EQ(moved.tokens_different, 0u);
}

TEST(Gate, StepsBehindTheFirstOtherTokenDoNotCount) {
  const Baseline was = baseline({answer("a", {step({0.5, 0.499}), step({0.9, 0.05})})});
  const Baseline is = baseline({answer("a", {step({0.499, 0.5}, 2), step({0.1, 0.05})})});
  const GateResult result = compare(was, is, {});
  const AnswerResult& moved = result.answers[0];
  EXPECT_EQ(moved.first_difference["what"], "token");
  EXPECT_EQ(moved.first_difference["step"], 0);
  EXPECT_EQ(moved.first_difference["expected"], 1);
  EXPECT_EQ(moved.first_difference["found"], 2);
  EXPECT_EQ(moved.distance->steps, 1u);
  EXPECT_LT(moved.distance->logprob_max, 0.01);
  EXPECT_EQ(moved.tokens_different, 1u);
  EXPECT_LT(*moved.margin, kNearTie);
}

TEST(Gate, ALongerAnswerDiffersWhereTheOtherEnds) {
  const Baseline was = baseline({answer("a", {step({0.5, 0.3})})});
  const Baseline is = baseline({answer("a", {step({0.5, 0.3}), step({0.5, 0.3})})});
  const GateResult result = compare(was, is, {});
  EXPECT_EQ(result.answers[0].first_difference["step"], 1);
  EXPECT_TRUE(result.answers[0].first_difference["expected"].is_null());
  EXPECT_EQ(result.answers[0].tokens_different, 1u);
  EXPECT_FALSE(result.answers[0].margin) << "the baseline has no such step";
}

TEST(Gate, AtTheLevelOfTokensLogprobsMayMove) {
  Baseline was = baseline({answer("a", {step({0.5, 0.3})})}), is = baseline({answer("a", {step({0.4, 0.4})})});
  was.answers[0].level = is.answers[0].level = Level::kTokens;
  EXPECT_TRUE(compare(was, is, {}).passed);
  EXPECT_EQ(was.answers[0].digest(), is.answers[0].digest());
  is.answers[0].text = "other";
  EXPECT_EQ(compare(was, is, {}).answers[0].first_difference["what"], "text");
}

TEST(Gate, IdentityAndDeploymentAreToldApart) {
  const Baseline was = baseline({answer("a", {step({0.5, 0.3})})});
  const Baseline bug = baseline({answer("a", {step({0.4, 0.4})})}, "w", 2);
  const GateResult broken = compare(was, bug, {});
  EXPECT_FALSE(broken.identity_changed);
  ASSERT_EQ(broken.deployment_changes.size(), 1u);
  EXPECT_EQ(broken.deployment_changes[0].field, "threads");
  EXPECT_EQ(broken.deployment_changes[0].is, "2");
  EXPECT_NE(summary_of(broken).find("this is a bug"), std::string::npos);

  const Baseline meant = baseline({answer("a", {step({0.4, 0.4})})}, "v");
  const GateResult changed = compare(was, meant, {});
  EXPECT_TRUE(changed.identity_changed);
  ASSERT_EQ(changed.identity_changes.size(), 1u);
  EXPECT_EQ(changed.identity_changes[0].field, "weights");
  EXPECT_NE(summary_of(changed).find("needs an approval"), std::string::npos);

  const GateResult harmless = compare(was, baseline({answer("a", {step({0.5, 0.3})})}, "v"), {});
  EXPECT_TRUE(harmless.passed);
  EXPECT_NE(summary_of(harmless).find("though the identity changed (weights)"), std::string::npos);
}

TEST(Gate, WhatCannotBeAsked) {
  RecordedAnswer none = answer("a", {step({0.5, 0.3})});
  none.not_run = "no template";
  const RecordedAnswer other = answer("b", {step({0.5, 0.3})});
  const GateResult both = compare(baseline({none, other}), baseline({none, other}), {});
  EXPECT_TRUE(both.passed);
  EXPECT_EQ(both.not_run, 1u);
  EXPECT_FALSE(compare(baseline({none}), baseline({none}), {}).passed) << "nothing was compared";
  const GateResult lost = compare(baseline({answer("a", {step({0.5, 0.3})})}), baseline({none}), {});
  EXPECT_EQ(lost.answers[0].first_difference["what"], "answer");
  EXPECT_FALSE(lost.passed);
  // An answer of several that is not there any more, and requests that were not asked this time.
  RecordedAnswer second = answer("b", {step({0.5, 0.3})});
  second.index = 1;
  EXPECT_EQ(compare(baseline({other, second}), baseline({other}), {}).drift, 1u);
  EXPECT_EQ(compare(baseline({other, none}), baseline({other}), {}).answers.size(), 1u);
}

TEST(Gate, AnotherPromptIsNamed) {
  Baseline is = baseline({answer("a", {step({0.5, 0.3})})});
  is.answers[0].prompt_hash = "q";
  const GateResult result = compare(baseline({answer("a", {step({0.5, 0.3})})}), is, {});
  EXPECT_EQ(result.answers[0].first_difference["what"], "prompt");
  EXPECT_FALSE(result.answers[0].distance);
}

}  // namespace
}  // namespace eadem::audit
