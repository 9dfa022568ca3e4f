#include "api/receipts.h"

#include <array>
#include <chrono>
#include <ctime>

#include "api/request_json.h"
#include "core/result.h"
#include "core/sha256.h"

namespace eadem::api {
namespace {

using nlohmann::ordered_json;

std::string now_in_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

}  // namespace

Result<void> check_receipts(const ModelInfo& info) {
  if (info.mode == "contract") return {};
  return Error{"mode " + info.mode +
               " gives no receipts: its answers depend on the batch and the threads, so that nobody could verify one; "
               "use --mode contract"};
}

bool has_receipt(const Completion& answer) {
  return answer.finish_reason == FinishReason::kStop || answer.finish_reason == FinishReason::kLength;
}

contract::Receipt make_receipt(const Engine& engine, const Request& request, const Completion& answer) {
  EADEM_CHECK(request.receipt && has_receipt(answer) && !answer.steps_digest.empty());
  contract::Receipt receipt;
  receipt.made = now_in_utc();
  receipt.id = request.id;
  receipt.prompt = request.prompt_token_ids;
  SamplingParams sampling = request.sampling;
  sampling.n = 1;
  sampling.seed = answer.seed;
  receipt.sampling = to_json(sampling);
  receipt.index = answer.index;
  for (const SampledToken& token : answer.tokens) receipt.tokens.push_back(token.token);
  if (engine.info().has_tokenizer) receipt.text_sha256 = sha256(answer.text);
  receipt.finish_reason = to_string(answer.finish_reason);
  receipt.logprobs = sampling.logprobs >= 0 && sampling.processed_logprobs ? "processed" : "raw";
  receipt.step_hashes = answer.step_hashes;
  receipt.steps_digest = answer.steps_digest;
  receipt.identity = engine.identity();
  receipt.identity_parts = ordered_json::parse(engine.identity_parts());
  receipt.deployment = engine.deployment();
  receipt.deployment_parts = ordered_json::parse(engine.deployment_parts());
  receipt.cached_tokens = answer.cached_tokens;
  receipt.drafted_tokens = answer.drafted_tokens;
  receipt.accepted_tokens = answer.accepted_tokens;
  receipt.preemptions = answer.preemptions;
  contract::complete(receipt);
  return receipt;
}

Result<Request> request_of(const contract::Receipt& receipt) {
  Request request;
  request.prompt_token_ids = receipt.prompt;
  EADEM_ASSIGN_OR_RETURN(request.sampling, parse_sampling(receipt.sampling, {}));
  request.receipt = true;
  return request;
}

}  // namespace eadem::api
