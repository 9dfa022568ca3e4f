// Verifying receipts on a tiny model: equal, the first step that differs, another identity, hashes alone, neighbours.
#include <gtest/gtest.h>

#include "api/receipts.h"
#include "api/request_json.h"
#include "audit/verify.h"
#include "contract/base64.h"
#include "support/tiny_llama.h"

namespace eadem::audit {
namespace {

using contract::Receipt;
using contract::ReceiptContent;
using contract::SigningKey;
using nlohmann::ordered_json;

struct Opened {
  explicit Opened(EngineOptions options = {}, uint64_t weights = 1) {
    testing::write_tiny_llama(folder.path(), weights);
    options.model = folder.path().string();
    options.threads = 1;
    auto result = Engine::open(options);
    if (!result.ok()) throw std::runtime_error(result.error().message);
    engine = std::make_unique<Engine>(std::move(result).value());
  }
  test::TempDirectory folder;
  std::unique_ptr<Engine> engine;
};

const SigningKey& key() {
  static const SigningKey made = SigningKey::generate();
  return made;
}

Request request() {
  Request request;
  for (int i = 0; i < 20; ++i) request.prompt_token_ids.push_back(i * 11 % 211);
  request.sampling.max_tokens = 10;
  request.sampling.seed = 7;
  request.sampling.prompt_logprobs = 0;
  request.receipt = true;
  return request;
}

Receipt made(Engine& engine) { return api::make_receipt(engine, request(), engine.generate(request()).value()[0]); }

Verification verify(Engine& engine, const Receipt& receipt, const VerifyOptions& options = {}) {
  Verification result =
      open_receipt(contract::seal_receipt(receipt, ReceiptContent::kFull, key()), &key().verifying_key());
  verify_receipts(engine, options, {&result}, 8, [] { return true; });
  return result;
}

// The last step hash and the digest of all belong together.
void change_step(Receipt& receipt, size_t step) {
  for (size_t i = step; i < receipt.step_hashes.size(); ++i) receipt.step_hashes[i] ^= 1;
  const uint64_t last = receipt.step_hashes.back();
  std::string head;
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(last >> shift & 0xff);
  receipt.steps_digest = contract::to_hex(head) + receipt.steps_digest.substr(16);
}

TEST(Verify, EqualAloneAndBesideOthers) {
  Opened opened;
  const Receipt receipt = made(*opened.engine);
  const Verification alone = verify(*opened.engine, receipt);
  EXPECT_EQ(alone.verdict, ReceiptVerdict::kEqual) << alone.message;
  EXPECT_EQ(alone.key_id, key().key_id());
  Opened other({.prefill_chunk = 16});
  const Verification beside = verify(*other.engine, receipt, {.beside = 5});
  EXPECT_EQ(beside.verdict, ReceiptVerdict::kEqual) << beside.message;
  EXPECT_GE(other.engine->counters().max_sequences, 5U);
  EXPECT_GT(other.engine->counters().mixed_steps, 0U);
  EXPECT_EQ(other.engine->load().running, 0) << "neighbours are gone";
}

TEST(Verify, FindsTheFirstStepThatDiffers) {
  Opened opened;
  const Receipt receipt = made(*opened.engine);
  ASSERT_EQ(receipt.step_hashes.size(), 30U);  // 20 of the prompt, 10 drawn
  for (const size_t step : {size_t{0}, size_t{3}, size_t{20}, size_t{27}, size_t{29}}) {
    Receipt changed = receipt;
    change_step(changed, step);
    const Verification result = verify(*opened.engine, changed);
    ASSERT_EQ(result.verdict, ReceiptVerdict::kDifferent);
    EXPECT_EQ(result.first_difference["step"], step);
    EXPECT_EQ(result.first_difference["position"], step);
    EXPECT_EQ(result.first_difference["field"], "logprobs");
    EXPECT_EQ(result.first_difference.contains("output_token"), step >= 20);
    EXPECT_NE(result.message.find("step " + std::to_string(step) + " "), std::string::npos) << result.message;
  }
  Receipt token = receipt;  // and says another token there
  token.tokens[4] = (token.tokens[4] + 1) % 211;
  contract::complete(token);
  change_step(token, 24);
  const Verification other = verify(*opened.engine, token);
  EXPECT_EQ(other.first_difference["field"], "token_ids");
  EXPECT_EQ(other.first_difference["was"]["token"], token.tokens[4]);
  EXPECT_EQ(other.first_difference["is"]["token"], receipt.tokens[4]);
  EXPECT_EQ(other.first_difference["output_token"], 4);
}

TEST(Verify, FindsWhatNoStepShows) {
  Opened opened;
  const Receipt receipt = made(*opened.engine);
  const auto field = [&](const std::function<void(Receipt&)>& change) {
    Receipt changed = receipt;
    change(changed);
    const Verification result = verify(*opened.engine, changed);
    EXPECT_EQ(result.verdict, ReceiptVerdict::kDifferent) << result.message;
    return result.first_difference.value("field", std::string("none"));
  };
  EXPECT_EQ(field([](Receipt& r) { r.steps_digest[63] = r.steps_digest[63] == '0' ? '1' : '0'; }), "steps.digest");
  EXPECT_EQ(field([](Receipt& r) { r.finish_reason = "stop"; }), "answer.finish_reason");
  EXPECT_EQ(field([](Receipt& r) { r.text_sha256 = std::string(64, '0'); }), "answer.text_sha256");
  EXPECT_EQ(field([](Receipt& r) { r.tokens[9] ^= 1, contract::complete(r); }), "answer.output_digest");
  EXPECT_EQ(field([](Receipt& r) { r.sampling["max_tokens"] = 9, contract::complete(r); }), "length");
  EXPECT_EQ(field([](Receipt& r) { r.sampling["max_tokens"] = 11, contract::complete(r); }), "length");
  EXPECT_EQ(field([](Receipt& r) { r.sampling["seed"] = 8, contract::complete(r); }), "token_ids");
}

TEST(Verify, TellsWhichPartOfTheIdentityIsAnother) {
  Opened opened({.numerics = "fma32"});
  const Receipt receipt = made(*opened.engine);
  const auto fields = [&](Engine& engine) {
    const Verification result = verify(engine, receipt);
    EXPECT_EQ(result.verdict, ReceiptVerdict::kOtherIdentity) << result.message;
    EXPECT_TRUE(result.first_difference.is_null()) << "nothing is computed";
    return result.other_fields;
  };
  Opened weights({.numerics = "fma32"}, 2), numerics({.numerics = "mma16"}),
      chat({.numerics = "fma32", .chat_template = "{{ messages[0].content }}"});
  EXPECT_EQ(fields(*weights.engine), (std::vector<std::string>{"weights"}));
  EXPECT_EQ(fields(*numerics.engine), (std::vector<std::string>{"numerics"}));
  EXPECT_EQ(fields(*chat.engine), (std::vector<std::string>{"chat_template"}));
  // Computed all the same where asked, and then the numbers differ; the template reaches none of them.
  const Verification other = verify(*numerics.engine, receipt, {.despite_identity = true});
  EXPECT_EQ(other.verdict, ReceiptVerdict::kDifferent);
  EXPECT_EQ(other.other_fields, (std::vector<std::string>{"numerics"}));
  EXPECT_EQ(verify(*chat.engine, receipt, {.despite_identity = true}).verdict, ReceiptVerdict::kEqual);
}

TEST(Verify, OfHashesAloneNeedsTheRequest) {
  Opened opened;
  const auto answer = opened.engine->generate(request()).value()[0];
  const Receipt receipt = api::make_receipt(*opened.engine, request(), answer);
  const std::string sealed = contract::seal_receipt(receipt, ReceiptContent::kHashes, key());
  KnownRequests known;
  Verification result = open_receipt(sealed, nullptr);
  EXPECT_TRUE(result.key_id.empty());
  EXPECT_FALSE(known.fill(result.receipt));
  EXPECT_FALSE(known.add({{"token_ids", {1}}}).ok());
  ASSERT_TRUE(known.add(api::to_json(*opened.engine, request(), answer)).ok());
  ASSERT_TRUE(known.fill(result.receipt));
  verify_receipts(*opened.engine, {}, {&result}, 8, [] { return true; });
  EXPECT_EQ(result.verdict, ReceiptVerdict::kEqual) << result.message;
}

TEST(Verify, WhatCannotBeRunIsNoDifference) {
  Opened opened;
  Receipt receipt = made(*opened.engine);
  receipt.sampling["max_tokens"] = "many";
  contract::complete(receipt);
  EXPECT_EQ(verify(*opened.engine, receipt).verdict, ReceiptVerdict::kNoReceipt);
  receipt.sampling["max_tokens"] = 10;
  receipt.prompt.assign(5000, 1);  // longer than the model's context
  contract::complete(receipt);
  const Verification result = verify(*opened.engine, receipt);
  EXPECT_EQ(result.verdict, ReceiptVerdict::kNotRun);
  EXPECT_NE(result.message.find("cannot be run here: "), std::string::npos) << result.message;
}

TEST(Verify, FindsEnvelopesInAnswers) {
  const std::string sealed = R"({"payload":"","payloadType":"t","signatures":[{"keyid":"","sig":""}]})";
  EXPECT_EQ(envelopes_of(sealed).value(), std::vector<std::string>{sealed});
  EXPECT_EQ(envelopes_of(R"({"eadem":{"receipts":[null,)" + sealed + "]}}").value(), std::vector<std::string>{sealed});
  EXPECT_EQ(envelopes_of(R"({"receipts":[)" + sealed + "," + sealed + "]}").value().size(), 2U);
  EXPECT_FALSE(envelopes_of("{\"receipts\":[]}").ok());
  EXPECT_FALSE(envelopes_of("{").ok());
  EXPECT_EQ(open_receipt("{}", nullptr).verdict, ReceiptVerdict::kNoEnvelope);
  EXPECT_EQ(open_receipt(sealed, nullptr).verdict, ReceiptVerdict::kNoReceipt);
  EXPECT_EQ(open_receipt(sealed, &key().verifying_key()).verdict, ReceiptVerdict::kOtherType);
}

}  // namespace
}  // namespace eadem::audit
