// The running hash over steps, and receipts: what they hold, what they refuse, and that no bit changes unseen.
#include <gtest/gtest.h>

#include <set>

#include "contract/base64.h"
#include "contract/canonical_json.h"
#include "contract/dsse.h"
#include "contract/logprob_chain.h"
#include "contract/receipt.h"
#include "contract/statement.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

SampledToken step(int32_t token, float logprob, std::vector<TokenLogprob> top = {}) {
  return {token, logprob, std::move(top)};
}

TEST(LogprobChain, IsTheHashThatItsHeaderSays) {
  LogprobChain chain;
  text::Blake3 hash;
  hash.update("eadem-steps-v1");
  EXPECT_EQ(chain.digest(), hash.hex_digest());
  chain.add(5, step(258, -1.5f, {{3, NAN}}));
  text::Blake3 next;
  const auto before = hash.digest();
  next.update(before.data(), before.size());
  // position 5, token 258, -1.5f, one likely token: 3 with the NaN
  next.update(std::string_view("\x05\0\0\0\x02\x01\0\0\0\0\xc0\xbf\x01\0\0\0\x03\0\0\0\0\0\xc0\x7f", 24));
  EXPECT_EQ(chain.digest(), next.hex_digest());
  ASSERT_EQ(chain.heads().size(), 1U);
  char head[17];
  std::snprintf(head, sizeof head, "%016llx", static_cast<unsigned long long>(chain.heads()[0]));
  EXPECT_EQ(std::string(head), next.hex_digest().substr(0, 16));
}

TEST(LogprobChain, TheFirstStepThatDiffersIsTheFirstHeadThatDoes) {
  const auto run = [](int changed, const SampledToken& other, int64_t shift = 0) {
    LogprobChain chain;
    for (int i = 0; i < 20; ++i)
      chain.add(i + shift, i == changed ? other : step(i, -0.25f * static_cast<float>(i), {{1, -2.0f}}));
    return chain.heads();
  };
  const auto whole = run(-1, {});
  EXPECT_EQ(run(-1, {}), whole);
  const float next_up = std::nextafter(-1.75f, 0.0f);
  for (const SampledToken& other :
       {step(8, -1.75f, {{1, -2.0f}}), step(7, next_up, {{1, -2.0f}}), step(7, NAN, {{1, -2.0f}}), step(7, -1.75f),
        step(7, -1.75f, {{2, -2.0f}}), step(7, -1.75f, {{1, -2.5f}}), step(7, -1.75f, {{1, -2.0f}, {1, -2.0f}})}) {
    const auto heads = run(7, other);
    for (size_t i = 0; i < heads.size(); ++i) EXPECT_EQ(heads[i] == whole[i], i < 7) << i;
  }
  EXPECT_NE(run(-1, {}, 1)[0], whole[0]) << "a position is part of its step";
}

Receipt sample() {
  Receipt receipt;
  receipt.made = "2026-11-29T22:50:00Z";
  receipt.id = "question 1";
  receipt.prompt = {1, 2, 300};
  receipt.sampling = {
      {"max_tokens", 2}, {"temperature", 0.699999988079071}, {"seed", uint64_t{18446744073709551615u}}, {"n", 1}};
  receipt.tokens = {7, 8};
  receipt.text_sha256 = std::string(64, 'a');
  receipt.finish_reason = "length";
  receipt.logprobs = "raw";
  LogprobChain chain;
  chain.add(3, step(7, -0.5f));
  chain.add(4, step(8, -0.25f));
  receipt.step_hashes = chain.heads();
  receipt.steps_digest = chain.digest();
  receipt.identity_parts = {{"numerics", "fma32-v1"}, {"weights", "00"}};
  receipt.identity = canonical_digest(canonical_json(receipt.identity_parts).value());
  receipt.deployment_parts = {{"cores", 2}, {"cpu_model", "any"}};
  receipt.deployment = canonical_digest(canonical_json(receipt.deployment_parts).value());
  receipt.cached_tokens = 2;
  receipt.preemptions = 1;
  complete(receipt);
  return receipt;
}

TEST(Receipt, HoldsAllThatIsNeededToComputeTheAnswerAgain) {
  const Receipt made = sample();
  const auto read = parse_receipt(receipt_statement(made, ReceiptContent::kFull));
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Receipt& receipt = read.value();
  EXPECT_TRUE(check_receipt(receipt).ok()) << check_receipt(receipt).error().message;
  EXPECT_TRUE(receipt.has_contents);
  EXPECT_EQ(receipt.made, made.made);
  EXPECT_EQ(receipt.id, made.id);
  EXPECT_EQ(receipt.prompt, made.prompt);
  EXPECT_EQ(receipt.sampling.dump(), made.sampling.dump());
  EXPECT_EQ(receipt.tokens, made.tokens);
  EXPECT_EQ(receipt.text_sha256, made.text_sha256);
  EXPECT_EQ(receipt.step_hashes, made.step_hashes);
  EXPECT_EQ(receipt.steps_digest, made.steps_digest);
  EXPECT_EQ(receipt.identity, made.identity);
  EXPECT_EQ(receipt.identity_parts, made.identity_parts);
  EXPECT_EQ(receipt.deployment_parts, made.deployment_parts);
  EXPECT_EQ(receipt.cached_tokens, 2);
  EXPECT_EQ(receipt.preemptions, 1);
  EXPECT_EQ(receipt_statement(receipt, ReceiptContent::kFull), receipt_statement(made, ReceiptContent::kFull));
}

TEST(Receipt, OfHashesTellsNeitherPromptNorParametersNorTokens) {
  const std::string text = receipt_statement(sample(), ReceiptContent::kHashes);
  for (const char* secret : {"token_ids", "\"sampling\"", "temperature", "300"}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << secret << " in " << text;
  }
  const auto read = parse_receipt(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_FALSE(read.value().has_contents);
  EXPECT_EQ(read.value().prompt_digest, digest_of_tokens(sample().prompt));
  EXPECT_EQ(read.value().sampling_digest, digest_of_parameters(sample().sampling));
  EXPECT_TRUE(check_receipt(read.value()).ok());
}

TEST(Receipt, EveryFieldMustBeThereAndOfItsType) {
  const ordered_json good = ordered_json::parse(receipt_statement(sample(), ReceiptContent::kFull));
  const std::set<std::string> optional = {"/predicate/request/id", "/predicate/answer/text_sha256",
                                          // without it the receipt is one of hashes
                                          "/predicate/request/prompt_token_ids"};
  int tried = 0;
  const auto refused = [&](const ordered_json& changed, const std::string& what) {
    const auto read = parse_receipt(changed.dump());
    ++tried;
    if (!read.ok()) {
      const std::string& message = read.error().message;
      EXPECT_TRUE(message.starts_with("no receipt: ") || message.starts_with("no in-toto statement: ")) << message;
    }
    return !read.ok() || !check_receipt(read.value()).ok() ? true : (ADD_FAILURE() << what, false);
  };
  const ordered_json flat = good.flatten();
  for (const auto& [path, value] : flat.items()) {
    const ordered_json::json_pointer at(path);
    if (path.find("/sampling/") != std::string::npos || path.find("/parts/") != std::string::npos) continue;
    for (const ordered_json& other : {ordered_json(), ordered_json(-1), ordered_json(1.5), ordered_json::object()}) {
      ordered_json changed = good;
      changed[at] = other;
      refused(changed, path + " = " + other.dump());
    }
    const ordered_json::json_pointer parent = at.parent_pointer();
    if (!good[parent].is_object() || optional.contains(path) || path == "/subject/0/name" ||
        path.starts_with("/subject/1")) {
      continue;
    }
    ordered_json without = good;
    without[parent].erase(at.back());
    refused(without, path + " is missing");
  }
  EXPECT_GT(tried, 100);
}

std::string contradiction(const std::function<void(Receipt&)>& change, bool keep_digests = true) {
  Receipt receipt = sample();
  change(receipt);
  if (!keep_digests) complete(receipt);
  const auto read = parse_receipt(receipt_statement(receipt, ReceiptContent::kFull));
  if (!read.ok()) return read.error().message;
  const auto checked = check_receipt(read.value());
  return checked.ok() ? "none" : checked.error().message.substr(0, checked.error().message.find(" is not"));
}

TEST(Receipt, ThatContradictsItselfIsFound) {
  EXPECT_EQ(contradiction([](Receipt&) {}), "none");
  EXPECT_EQ(contradiction([](Receipt& r) { r.prompt[0] = 2; }), "field 'request.prompt_digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.prompt_tokens = 4; }), "field 'request.prompt_tokens'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.sampling["max_tokens"] = 3; }), "field 'request.sampling_digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.tokens[1] = 9; }), "field 'answer.output_digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.output_tokens = 1; }), "field 'answer.output_tokens'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.output_tokens = 3; }), "field 'steps.running'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.identity_parts["weights"] = "01"; }), "field 'identity.digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.deployment_parts["cores"] = 3; }), "field 'deployment.digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { ++r.step_hashes[1]; }), "field 'steps.digest'");
  EXPECT_EQ(contradiction([](Receipt& r) { r.tokens.push_back(9); }, false), "field 'steps.running'");
}

// One bit of each byte of an envelope, wherever it is: payload, type, signature, key id, structure.
TEST(Receipt, NoBitOfASealedOneChangesUnseen) {
  const SigningKey key = SigningKey::generate();
  const std::string sealed = seal_receipt(sample(), ReceiptContent::kFull, key);
  ASSERT_TRUE(unseal(sealed, kStatementPayload, key.verifying_key()).ok());
  std::set<std::string> faults;
  for (size_t at = 0; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at * 5 % 8);
    const auto payload = unseal(changed, kStatementPayload, key.verifying_key());
    ASSERT_FALSE(payload.ok()) << "byte " << at;
    faults.insert(payload.error().message.substr(0, payload.error().message.find(':')));
  }
  EXPECT_EQ(faults,
            (std::set<std::string>{"no DSSE envelope", "another payload type", "unknown key", "bad signature"}));
}

}  // namespace
}  // namespace eadem::contract
