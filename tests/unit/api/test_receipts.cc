// Receipts change no answer, and their step hashes are a function of the request alone.
#include <gtest/gtest.h>

#include <cstring>

#include "api/receipts.h"
#include "eadem/engine.h"
#include "support/tiny_llama.h"

namespace eadem {
namespace {

class Receipts : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_llama(folder_.path()); }

  Engine open(EngineOptions options) {
    options.model = folder_.path().string();
    if (options.threads == 0) options.threads = 1;
    auto result = Engine::open(options);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return std::move(result).value();
  }

  test::TempDirectory folder_;
};

Request ask(int prompt, int tokens, bool receipt) {
  Request request;
  for (int i = 0; i < prompt; ++i) request.prompt_token_ids.push_back((i * 11 + prompt) % 211);
  request.sampling.max_tokens = tokens;
  request.sampling.seed = 7;
  request.receipt = receipt;
  return request;
}

// Every way of drawing that sees logprobs or might.
std::vector<Request> many(bool receipt) {
  std::vector<Request> requests;
  for (int kind = 0; kind < 10; ++kind) requests.push_back(ask(9 + 13 * kind, 12, receipt));
  requests[1].sampling.logprobs = 0;
  requests[2].sampling.logprobs = 3;
  requests[3].sampling.temperature = 0.0f;
  requests[4].sampling.top_p = 0.8f, requests[4].sampling.top_k = 20, requests[4].sampling.repetition_penalty = 1.3f;
  requests[5].sampling.processed_logprobs = true, requests[5].sampling.min_p = 0.02f;
  requests[6].sampling.processed_logprobs = true, requests[6].sampling.logprobs = 2, requests[6].sampling.top_k = 9;
  requests[7].sampling.golden_token_ids = {5, 6, 7};
  requests[8].sampling.prompt_logprobs = 1;
  requests[9].sampling.n = 3;
  return requests;
}

std::vector<Completion> run(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::vector<Completion>> answers(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Callbacks callbacks;
    callbacks.on_token = [](int, const SampledToken&, std::string_view) { return true; };
    callbacks.on_done = [&answers, i](std::vector<Completion> done) { answers[i] = std::move(done); };
    EXPECT_TRUE(engine.submit(requests[i], std::move(callbacks)).ok());
  }
  while (engine.step()) {
  }
  std::vector<Completion> all;
  for (auto& some : answers) {
    for (Completion& answer : some) all.push_back(std::move(answer));
  }
  return all;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

void expect_same(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token, b[i].token);
    EXPECT_TRUE(same_bits(a[i].logprob, b[i].logprob));
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t k = 0; k < a[i].top.size(); ++k) {
      EXPECT_EQ(a[i].top[k].token, b[i].top[k].token);
      EXPECT_TRUE(same_bits(a[i].top[k].logprob, b[i].top[k].logprob));
    }
  }
}

TEST_F(Receipts, ChangeNoReply) {
  Engine engine = open({});
  const auto with = run(engine, many(true)), without = run(engine, many(false));
  ASSERT_EQ(with.size(), 12U);
  ASSERT_EQ(without.size(), 12U);
  for (size_t i = 0; i < with.size(); ++i) {
    expect_same(with[i].tokens, without[i].tokens);
    expect_same(with[i].prompt_tokens, without[i].prompt_tokens);
    EXPECT_EQ(with[i].finish_reason, without[i].finish_reason);
    EXPECT_EQ(with[i].seed, without[i].seed);
    EXPECT_EQ(with[i].step_hashes.size(), with[i].tokens.size() + with[i].prompt_tokens.size());
    EXPECT_EQ(with[i].steps_digest.size(), 64U);
    EXPECT_TRUE(without[i].step_hashes.empty() && without[i].steps_digest.empty()) << "it must cost nothing";
  }
}

TEST_F(Receipts, HoldLogprobsThatNobodyAskedFor) {
  Engine engine = open({});
  Request silent = ask(20, 8, true), asks = silent, greedy = silent, processed = silent;
  asks.sampling.logprobs = 0;
  processed.sampling.processed_logprobs = true;  // of logprobs that are not asked for
  const auto a = engine.generate(silent).value()[0], b = engine.generate(asks).value()[0];
  EXPECT_TRUE(std::isnan(a.tokens[0].logprob));
  EXPECT_FALSE(std::isnan(b.tokens[0].logprob));
  EXPECT_EQ(a.step_hashes, b.step_hashes);
  EXPECT_EQ(a.steps_digest, b.steps_digest);
  EXPECT_EQ(engine.generate(processed).value()[0].steps_digest, a.steps_digest);
  greedy.sampling.seed = 8;
  EXPECT_NE(engine.generate(greedy).value()[0].steps_digest, a.steps_digest) << "the control";
}

std::vector<std::string> digests(Engine& engine) {
  std::vector<std::string> all;
  for (const Completion& answer : run(engine, many(true))) all.push_back(answer.steps_digest);
  return all;
}

TEST_F(Receipts, StepHashesAreAFunctionOfTheRequest) {
  Engine reference = open({.isa = "reference", .max_batch = 1, .prefix_cache = false});
  const auto expected = digests(reference);
  Engine batched = open({.threads = 3, .prefill_chunk = 24, .async_scheduling = true});
  EXPECT_EQ(digests(batched), expected);
  EXPECT_GT(batched.counters().mixed_steps, 0U);
  EXPECT_GT(batched.counters().overlapped_steps, 0U);
  EXPECT_EQ(digests(batched), expected) << "the second time, with prefixes from the cache";
  EXPECT_GT(batched.counters().prefix_hit_tokens, 0U);
  Engine preempted = open({.force_preempt = 3});
  const auto answers = run(preempted, many(true));
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].steps_digest, expected[i]);
    if (answers[i].tokens.size() > 8) {
      EXPECT_GE(answers[i].preemptions, 2) << i;
    }
  }
  Engine guessing = open({.speculation = "ngram"});
  EXPECT_EQ(digests(guessing), expected);
}

// The control: where sums depend on the threads, so do the hashes; and nobody gets a receipt of that.
TEST_F(Receipts, FreeModeFailsAndGivesNone) {
  Engine one = open({.mode = "free", .threads = 1, .max_batch = 1}), three = open({.mode = "free", .threads = 3});
  EXPECT_NE(digests(one), digests(three));
  const auto refused = api::check_receipts(one.info());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("mode free gives no receipts"), std::string::npos);
  EXPECT_TRUE(api::check_receipts(open({}).info()).ok());
}

TEST_F(Receipts, SpeakOfTheAnswerAndGiveItsRequestBack) {
  Engine engine = open({});
  Request request = ask(20, 6, true);
  request.id = "a name";
  request.sampling.n = 2;
  request.sampling.temperature = 0.7f;
  request.sampling.logit_bias = {{3, 0.1f}};
  const auto answers = engine.generate(request).value();
  for (const Completion& answer : answers) {
    const contract::Receipt receipt = api::make_receipt(engine, request, answer);
    EXPECT_TRUE(contract::check_receipt(receipt).ok());
    EXPECT_EQ(receipt.index, answer.index);
    EXPECT_EQ(receipt.id, "a name");
    EXPECT_EQ(receipt.prompt, request.prompt_token_ids);
    EXPECT_EQ(receipt.identity, engine.identity());
    EXPECT_EQ(receipt.deployment, engine.deployment());
    EXPECT_EQ(receipt.steps_digest, answer.steps_digest);
    EXPECT_EQ(receipt.made.size(), 20U);
    const auto again = api::request_of(receipt);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again.value().sampling.seed, answer.seed);
    const auto second = engine.generate(again.value()).value();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].steps_digest, answer.steps_digest);
  }
  EXPECT_NE(answers[0].steps_digest, answers[1].steps_digest);
}

}  // namespace
}  // namespace eadem
