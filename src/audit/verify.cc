#include "audit/verify.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <set>

#include "api/receipts.h"
#include "contract/json_text.h"
#include "contract/statement.h"
#include "core/sha256.h"
#include "weights/message.h"

namespace eadem::audit {
namespace {

using contract::Receipt;
using nlohmann::ordered_json;

Verification refused(ReceiptVerdict verdict, const std::string& message) {
  Verification result;
  result.verdict = verdict;
  result.message = message;
  return result;
}

ReceiptVerdict verdict_of(contract::SealFault fault) {
  switch (fault) {
    case contract::SealFault::kOtherType: return ReceiptVerdict::kOtherType;
    case contract::SealFault::kUnknownKey: return ReceiptVerdict::kUnknownKey;
    case contract::SealFault::kBadSignature: return ReceiptVerdict::kBadSignature;
    case contract::SealFault::kNoEnvelope: return ReceiptVerdict::kNoEnvelope;
    case contract::SealFault::kNone: break;
  }
  return ReceiptVerdict::kOpen;
}

const ordered_json* member(const ordered_json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// A part of an identity, for people; a receipt may hold anything there.
std::string shown(const ordered_json* part) {
  return part == nullptr ? "none" : weights::quote(part->get<std::string>().substr(0, 16));
}

// ASCII alone: what a terminal shows as it is.
std::string shown(const ordered_json& value) { return value.dump(-1, ' ', true); }

// What a field of the identity is called when it is another one.
std::string name_of(const std::string& field) {
  static const std::map<std::string, std::string> kNames = {{"weights", "another model (weights)"},
                                                            {"config", "another model (configuration)"},
                                                            {"tokenizer", "another tokenizer"},
                                                            {"chat_template", "another chat template"},
                                                            {"end_tokens", "other end-of-text tokens"},
                                                            {"numerics", "another numerics"},
                                                            {"sampler", "another version of the sampler"},
                                                            {"text_libraries", "other versions of the text libraries"}};
  const auto found = kNames.find(field);
  return found == kNames.end() ? "another " + weights::quote(field) : found->second;
}

void compare_identity(const Engine& engine, Verification& result) {
  const Receipt& receipt = result.receipt;
  if (receipt.identity == engine.identity()) return;
  const ordered_json mine = ordered_json::parse(engine.identity_parts());
  std::string all;
  const auto differs = [&](const std::string& field) {
    result.other_fields.push_back(field);
    const ordered_json* was = member(receipt.identity_parts, field.c_str());
    const ordered_json* is = member(mine, field.c_str());
    all += (all.empty() ? "" : "; ") + name_of(field) + ": " + shown(was) + " in the receipt, " + shown(is) + " here";
  };
  for (const auto& [field, value] : mine.items()) {
    const ordered_json* was = member(receipt.identity_parts, field.c_str());
    if (was == nullptr || *was != value) differs(field);
  }
  for (const auto& [field, value] : receipt.identity_parts.items()) {
    if (!mine.contains(field)) differs(field);
  }
  result.message = all;
}

ordered_json logprob_of(const SampledToken& token) {
  if (std::isnan(token.logprob)) return nullptr;
  char bits[16];
  std::snprintf(bits, sizeof bits, "%08" PRIx32, std::bit_cast<uint32_t>(token.logprob));
  return {{"value", double{token.logprob}}, {"bits", bits}};
}

// The step's place and tokens. `answer` may be shorter than the step.
ordered_json describe_step(const Receipt& receipt, const Completion& answer, size_t step) {
  const size_t before = receipt.step_hashes.size() - static_cast<size_t>(receipt.output_tokens);  // of the prompt
  const bool in_prompt = step < before;
  const size_t at = in_prompt ? step : step - before;
  const int64_t position = in_prompt ? static_cast<int64_t>(at) : receipt.prompt_tokens + static_cast<int64_t>(at);
  const std::vector<int32_t>& were = in_prompt ? receipt.prompt : receipt.tokens;
  const std::vector<SampledToken>& are = in_prompt ? answer.prompt_tokens : answer.tokens;
  ordered_json object = {{"field", "logprobs"}, {"step", step}, {"position", position}};
  object[in_prompt ? "prompt_token" : "output_token"] = at;
  const bool was_known = receipt.has_contents && at < were.size();
  if (step >= receipt.step_hashes.size() || at >= are.size()) {
    object["field"] = "length";
  } else if (was_known && were[at] != are[at].token) {
    object["field"] = "token_ids";
  }
  if (was_known) object["was"] = {{"token", were[at]}};
  if (at < are.size()) object["is"] = {{"token", are[at].token}, {"logprob", logprob_of(are[at])}};
  return object;
}

ordered_json differs_in(const char* field, const std::string& was, const std::string& is) {
  return {{"field", field}, {"was", was}, {"is", is}};
}

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

ordered_json first_difference_of(const Engine& engine, const Receipt& receipt, const Completion& answer) {
  const size_t most = std::max(receipt.step_hashes.size(), answer.step_hashes.size());
  for (size_t step = 0; step < most; ++step) {
    const bool both = step < receipt.step_hashes.size() && step < answer.step_hashes.size();
    if (!both || receipt.step_hashes[step] != answer.step_hashes[step]) return describe_step(receipt, answer, step);
  }
  if (receipt.steps_digest != answer.steps_digest) {
    return differs_in("steps.digest", receipt.steps_digest, answer.steps_digest);
  }
  std::vector<int32_t> tokens;
  for (const SampledToken& token : answer.tokens) tokens.push_back(token.token);
  const std::string output = contract::digest_of_tokens(tokens);
  if (receipt.output_digest != output) return differs_in("answer.output_digest", receipt.output_digest, output);
  const std::string text = engine.info().has_tokenizer ? sha256(answer.text) : "";
  if (receipt.text_sha256 != text) return differs_in("answer.text_sha256", receipt.text_sha256, text);
  const std::string reason(to_string(answer.finish_reason));
  if (receipt.finish_reason != reason) return differs_in("answer.finish_reason", receipt.finish_reason, reason);
  return nullptr;
}

std::string describe(const ordered_json& difference) {
  const std::string field = difference["field"].get<std::string>();
  if (!difference.contains("step")) {
    return field + " is " + shown(difference["is"]) + ", the receipt says " + shown(difference["was"]);
  }
  std::string text =
      "differs first at step " + shown(difference["step"]) + " (position " + shown(difference["position"]) + "): ";
  if (field == "length") {
    return text +
           (difference.contains("is") ? "the receipt's answer ends before it" : "the answer ends before it here");
  }
  if (field == "token_ids") {
    return text + "token " + shown(difference["is"]["token"]) + ", the receipt says " +
           shown(difference["was"]["token"]);
  }
  return text + (difference.contains("was") ? "the same token with another logprob" : "another token or logprob");
}

// Requests that keep an engine busy beside others: many lengths, every token drawn.
Request neighbour(const ModelInfo& info, int number) {
  constexpr int64_t kLengths[] = {1, 70, 9, 130, 33, 3, 64, 200, 17, 5};
  const int64_t most = std::max<int64_t>(1, std::min<int64_t>(info.max_model_len, int64_t{info.kv_blocks} * 64) / 4);
  const int64_t length = std::min(kLengths[static_cast<size_t>(number) % std::size(kLengths)], most);
  Request request;
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(number + 1);
  for (int64_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    request.prompt_token_ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(info.vocab)));
  }
  request.sampling.max_tokens = static_cast<int>(std::min<int64_t>(8 + number % 23, most));
  request.sampling.ignore_eos = true;
  request.sampling.seed = static_cast<uint64_t>(number);
  return request;
}

class Run {
 public:
  Run(Engine& engine, const VerifyOptions& options) : engine_(engine), options_(options) {}

  void start(Verification& result);
  void fill_up();
  void stop();
  int under_way() const { return under_way_; }

 private:
  void judge(Verification& result, const Completion& answer) const;

  Engine& engine_;
  const VerifyOptions& options_;
  int under_way_ = 0, neighbours_ = 0, number_ = 0;
  std::set<Engine::Ticket> tickets_;  // of all that runs, but for what ended since
};

void Run::start(Verification& result) {
  compare_identity(engine_, result);
  if (!result.other_fields.empty() && !options_.despite_identity) {
    result.verdict = ReceiptVerdict::kOtherIdentity;
    return;
  }
  auto request = api::request_of(result.receipt);
  if (!request.ok()) {
    result.verdict = ReceiptVerdict::kNoReceipt;
    result.message = "no receipt: field 'request.sampling': " + request.error().message;
    return;
  }
  Callbacks callbacks;
  callbacks.on_done = [this, &result](const std::vector<Completion>& answers) {
    --under_way_;
    judge(result, answers.front());
  };
  const auto ticket = engine_.submit(std::move(request).value(), std::move(callbacks));
  if (ticket.ok()) {
    tickets_.insert(ticket.value());
    ++under_way_;
  } else {
    result.verdict = ReceiptVerdict::kNotRun;
    result.message = "cannot be run here: " + ticket.error().message;
  }
}

void Run::judge(Verification& result, const Completion& answer) const {
  if (!api::has_receipt(answer)) {
    result.verdict = ReceiptVerdict::kNotRun;
    result.message = "cannot be run here: " + (answer.error.empty() ? "it was stopped" : answer.error);
    return;
  }
  result.first_difference = first_difference_of(engine_, result.receipt, answer);
  const bool equal = result.first_difference.is_null();
  result.verdict = equal ? ReceiptVerdict::kEqual : ReceiptVerdict::kDifferent;
  if (!equal) result.message += (result.message.empty() ? "" : "; ") + describe(result.first_difference);
}

void Run::fill_up() {
  while (neighbours_ < options_.beside) {
    Callbacks callbacks;
    callbacks.on_done = [this](const std::vector<Completion>&) { --neighbours_; };
    const auto ticket = engine_.submit(neighbour(engine_.info(), number_++), std::move(callbacks));
    if (!ticket.ok()) return;
    tickets_.insert(ticket.value());
    ++neighbours_;
  }
}

void Run::stop() {
  for (const Engine::Ticket ticket : tickets_) engine_.cancel(ticket);  // nothing, where it has ended
  while (engine_.step()) {
  }
}

}  // namespace

std::string_view to_string(ReceiptVerdict verdict) {
  switch (verdict) {
    case ReceiptVerdict::kOpen: return "open";
    case ReceiptVerdict::kSigned: return "signed";
    case ReceiptVerdict::kEqual: return "equal";
    case ReceiptVerdict::kDifferent: return "different";
    case ReceiptVerdict::kOtherIdentity: return "other_identity";
    case ReceiptVerdict::kNoEnvelope: return "no_envelope";
    case ReceiptVerdict::kOtherType: return "other_type";
    case ReceiptVerdict::kUnknownKey: return "unknown_key";
    case ReceiptVerdict::kBadSignature: return "bad_signature";
    case ReceiptVerdict::kNoReceipt: return "no_receipt";
    case ReceiptVerdict::kContradiction: return "contradiction";
    case ReceiptVerdict::kNoRequest: return "no_request";
    case ReceiptVerdict::kNotRun: return "not_run";
  }
  return "open";
}

bool is_bad_input(ReceiptVerdict verdict) {
  switch (verdict) {
    case ReceiptVerdict::kOpen:
    case ReceiptVerdict::kNoEnvelope:
    case ReceiptVerdict::kOtherType:
    case ReceiptVerdict::kNoReceipt:
    case ReceiptVerdict::kNoRequest:
    case ReceiptVerdict::kNotRun: return true;
    default: return false;
  }
}

Result<std::vector<std::string>> envelopes_of(const std::string& line) {
  const auto parsed = contract::parse_json(line);
  if (!parsed.ok()) return Error{"no DSSE envelope: " + parsed.error().message};
  const ordered_json& object = parsed.value();
  const ordered_json* list = member(object, "receipts");
  if (const ordered_json* extras = member(object, "eadem"); list == nullptr && extras != nullptr) {
    list = member(*extras, "receipts");
  }
  if (list == nullptr || member(object, "payload") != nullptr) return std::vector<std::string>{line};
  std::vector<std::string> envelopes;
  if (list->is_array()) {
    for (const ordered_json& envelope : *list) {
      if (!envelope.is_null())
        envelopes.push_back(envelope.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    }
  }
  if (envelopes.empty()) return Error{"no DSSE envelope: the answer's 'receipts' hold none"};
  return envelopes;
}

Verification open_receipt(const std::string& text, const contract::VerifyingKey* key) {
  auto envelope = contract::parse_envelope(text);
  if (!envelope.ok()) return refused(ReceiptVerdict::kNoEnvelope, envelope.error().message);
  const std::string_view type = contract::kStatementPayload;
  if (key != nullptr) {
    const auto fault = contract::check_seal(envelope.value(), type, *key);
    if (fault != contract::SealFault::kNone) {
      return refused(verdict_of(fault), contract::explain_seal(fault, envelope.value(), type, *key).message);
    }
  }
  auto receipt = contract::parse_receipt(envelope.value().payload);
  if (!receipt.ok()) return refused(ReceiptVerdict::kNoReceipt, receipt.error().message);
  Verification result;
  result.receipt = std::move(receipt).value();
  if (key != nullptr) result.key_id = key->key_id();
  if (const auto checked = contract::check_receipt(result.receipt); !checked.ok()) {
    result.verdict = ReceiptVerdict::kContradiction;
    result.message = checked.error().message;
  }
  return result;
}

Result<void> KnownRequests::add(const ordered_json& answer) {
  const ordered_json *prompt = member(answer, "prompt_token_ids"), *sampling = member(answer, "sampling"),
                     *seed = member(answer, "seed");
  const Error wanted{"no answer of `eadem generate --json`: it needs prompt_token_ids, seed and sampling"};
  if (prompt == nullptr || sampling == nullptr || seed == nullptr || !prompt->is_array() || !sampling->is_object()) {
    return wanted;
  }
  Contents contents;
  for (const ordered_json& id : *prompt) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) return wanted;
    contents.prompt.push_back(id.get<int32_t>());
  }
  contents.sampling = *sampling;
  contents.sampling["n"] = 1;
  contents.sampling["seed"] = *seed;
  const std::string name =
      contract::digest_of_tokens(contents.prompt) + contract::digest_of_parameters(contents.sampling);
  requests_[name] = std::move(contents);
  return {};
}

bool KnownRequests::fill(Receipt& receipt) const {
  const auto found = requests_.find(receipt.prompt_digest + receipt.sampling_digest);
  if (found == requests_.end()) return false;
  receipt.prompt = found->second.prompt;
  receipt.sampling = found->second.sampling;
  return true;
}

void verify_receipts(Engine& engine, const VerifyOptions& options, std::vector<Verification*> receipts,
                     int most_at_once, const std::function<bool()>& go_on) {
  Run run(engine, options);
  size_t next = 0;
  const auto more = [&] { return next < receipts.size() || run.under_way() > 0; };
  while (more() && go_on()) {
    run.fill_up();  // first, so that they are there when a receipt's request comes
    while (next < receipts.size() && run.under_way() < most_at_once) {
      Verification& result = *receipts[next++];
      if (result.verdict == ReceiptVerdict::kOpen) run.start(result);
    }
    if (run.under_way() > 0) engine.step();
  }
  run.stop();
}

}  // namespace eadem::audit
