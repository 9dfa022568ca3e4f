#include "contract/receipt.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "contract/base64.h"
#include "contract/canonical_json.h"
#include "contract/dsse.h"
#include "contract/statement.h"
#include "text/blake3.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

Error no_receipt(const std::string& field, const std::string& wanted) {
  return {"no receipt: field '" + field + "' must be " + wanted};
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The members of one object of the predicate, each read as the type that it must have.
class Reader {
 public:
  Reader(const ordered_json& parent, const std::string& name) : name_(name) {
    static const ordered_json kEmpty = ordered_json::object();
    const auto found = parent.find(name);
    is_object_ = found != parent.end() && found->is_object();
    object_ = is_object_ ? &*found : &kEmpty;
  }

  bool is_object() const { return is_object_; }
  bool has(const char* field) const { return object_->contains(field); }
  const ordered_json& at(const char* field) const { return (*object_)[field]; }
  std::string path(const char* field) const { return name_ + "." + field; }

  Result<std::string> text(const char* field) const {
    if (!has(field) || !at(field).is_string()) return no_receipt(path(field), "a string");
    return at(field).get<std::string>();
  }
  Result<ordered_json> object(const char* field) const {
    if (!has(field) || !at(field).is_object()) return no_receipt(path(field), "an object");
    return at(field);
  }
  Result<std::string> digest(const char* field) const {
    EADEM_ASSIGN_OR_RETURN(std::string digits, text(field));
    if (digits.size() != 64 || !is_hex(digits)) return no_receipt(path(field), "64 hexadecimal digits");
    return digits;
  }
  Result<int64_t> count(const char* field) const {
    const std::string wanted = "an integer in 0 ... " + std::to_string(kLargest);
    if (!has(field) || !at(field).is_number_integer()) return no_receipt(path(field), wanted);
    const ordered_json& value = at(field);
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kLargest}) {
      return no_receipt(path(field), wanted);
    }
    const auto number = value.get<int64_t>();
    if (number < 0 || number > kLargest) return no_receipt(path(field), wanted);
    return number;
  }
  Result<std::vector<int32_t>> tokens(const char* field) const {
    const Error wanted = no_receipt(path(field), "an array of token ids");
    if (!has(field) || !at(field).is_array()) return wanted;
    std::vector<int32_t> ids;
    ids.reserve(at(field).size());
    for (const ordered_json& id : at(field)) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{kLargest}) return wanted;
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

 private:
  std::string name_;
  const ordered_json* object_;
  bool is_object_ = false;
};

std::string to_bytes(const std::vector<uint64_t>& hashes) {
  std::string bytes;
  for (const uint64_t hash : hashes) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(hash >> shift & 0xff);
  }
  return bytes;
}

std::vector<uint64_t> from_bytes(std::string_view bytes) {
  std::vector<uint64_t> hashes(bytes.size() / 8);
  for (size_t i = 0; i < 8 * hashes.size(); ++i) hashes[i / 8] = hashes[i / 8] << 8 | static_cast<uint8_t>(bytes[i]);
  return hashes;
}

Result<void> read_request(const ordered_json& predicate, Receipt& receipt) {
  const Reader reader(predicate, "request");
  if (!reader.is_object()) return no_receipt("request", "an object");
  if (reader.has("id")) {
    EADEM_ASSIGN_OR_RETURN(receipt.id, reader.text("id"));
  }
  EADEM_ASSIGN_OR_RETURN(receipt.prompt_tokens, reader.count("prompt_tokens"));
  EADEM_ASSIGN_OR_RETURN(receipt.prompt_digest, reader.digest("prompt_digest"));
  EADEM_ASSIGN_OR_RETURN(receipt.sampling_digest, reader.digest("sampling_digest"));
  receipt.has_contents = reader.has("prompt_token_ids");
  if (!receipt.has_contents) return {};
  EADEM_ASSIGN_OR_RETURN(receipt.prompt, reader.tokens("prompt_token_ids"));
  EADEM_ASSIGN_OR_RETURN(receipt.sampling, reader.object("sampling"));
  return {};
}

Result<void> read_answer(const ordered_json& predicate, Receipt& receipt) {
  const Reader reader(predicate, "answer");
  if (!reader.is_object()) return no_receipt("answer", "an object");
  EADEM_ASSIGN_OR_RETURN(const int64_t index, reader.count("index"));
  receipt.index = static_cast<int>(index);
  EADEM_ASSIGN_OR_RETURN(receipt.output_tokens, reader.count("output_tokens"));
  EADEM_ASSIGN_OR_RETURN(receipt.output_digest, reader.digest("output_digest"));
  if (reader.has("text_sha256")) {
    EADEM_ASSIGN_OR_RETURN(receipt.text_sha256, reader.digest("text_sha256"));
  }
  EADEM_ASSIGN_OR_RETURN(receipt.finish_reason, reader.text("finish_reason"));
  if (!receipt.has_contents) return {};
  EADEM_ASSIGN_OR_RETURN(receipt.tokens, reader.tokens("token_ids"));
  return {};
}

Result<void> read_steps(const ordered_json& predicate, Receipt& receipt) {
  const Reader reader(predicate, "steps");
  if (!reader.is_object()) return no_receipt("steps", "an object");
  EADEM_ASSIGN_OR_RETURN(const std::string scheme, reader.text("scheme"));
  if (scheme != kStepScheme) return no_receipt("steps.scheme", "\"" + std::string(kStepScheme) + "\"");
  EADEM_ASSIGN_OR_RETURN(receipt.logprobs, reader.text("logprobs"));
  EADEM_ASSIGN_OR_RETURN(receipt.steps_digest, reader.digest("digest"));
  EADEM_ASSIGN_OR_RETURN(const std::string running, reader.text("running"));
  const auto bytes = from_base64(running);
  if (!bytes || bytes->size() % 8 != 0) return no_receipt("steps.running", "base64 of 8 bytes a step");
  receipt.step_hashes = from_bytes(*bytes);
  return {};
}

Result<void> read_identity(const ordered_json& predicate, Receipt& receipt) {
  const Reader reader(predicate, "identity");
  if (!reader.is_object()) return no_receipt("identity", "an object");
  EADEM_ASSIGN_OR_RETURN(receipt.identity, reader.digest("digest"));
  EADEM_ASSIGN_OR_RETURN(receipt.identity_parts, reader.object("parts"));
  for (const auto& [name, value] : receipt.identity_parts.items()) {
    if (!value.is_string()) return no_receipt("identity.parts", "an object of strings");
  }
  return {};
}

// Keys in ascending order, no blanks. Of strings alone, as an identity is, this is RFC 8785.
std::string canonical(const ordered_json& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error disagrees(const std::string& field, const std::string& with) {
  return {"field '" + field + "' is not what '" + with + "' gives: the signer made a receipt that contradicts itself"};
}

}  // namespace

std::string digest_of_tokens(std::span<const int32_t> tokens) {
  static_assert(std::endian::native == std::endian::little);
  text::Blake3 hash;
  hash.update(tokens.data(), tokens.size_bytes());
  return hash.hex_digest();
}

std::string digest_of_parameters(const ordered_json& sampling) { return canonical_digest(canonical(sampling)); }

void complete(Receipt& receipt) {
  receipt.prompt_tokens = static_cast<int64_t>(receipt.prompt.size());
  receipt.prompt_digest = digest_of_tokens(receipt.prompt);
  receipt.sampling_digest = digest_of_parameters(receipt.sampling);
  receipt.output_tokens = static_cast<int64_t>(receipt.tokens.size());
  receipt.output_digest = digest_of_tokens(receipt.tokens);
}

std::string receipt_statement(const Receipt& receipt, ReceiptContent content) {
  ordered_json request = ordered_json::object(), answer;
  if (!receipt.id.empty()) request["id"] = receipt.id;
  request["prompt_tokens"] = receipt.prompt_tokens;
  request["prompt_digest"] = receipt.prompt_digest;
  request["sampling_digest"] = receipt.sampling_digest;
  answer = {{"index", receipt.index},
            {"output_tokens", receipt.output_tokens},
            {"output_digest", receipt.output_digest},
            {"finish_reason", receipt.finish_reason}};
  if (!receipt.text_sha256.empty()) answer["text_sha256"] = receipt.text_sha256;
  if (content == ReceiptContent::kFull) {
    request["prompt_token_ids"] = receipt.prompt;
    request["sampling"] = receipt.sampling;
    answer["token_ids"] = receipt.tokens;
  }
  const ordered_json predicate = {{"made", receipt.made},
                                  {"request", std::move(request)},
                                  {"answer", std::move(answer)},
                                  {"steps",
                                   {{"scheme", kStepScheme},
                                    {"logprobs", receipt.logprobs},
                                    {"digest", receipt.steps_digest},
                                    {"running", to_base64(to_bytes(receipt.step_hashes))}}},
                                  {"identity", {{"digest", receipt.identity}, {"parts", receipt.identity_parts}}},
                                  {"deployment", {{"digest", receipt.deployment}, {"parts", receipt.deployment_parts}}},
                                  {"lineage",
                                   {{"cached_tokens", receipt.cached_tokens},
                                    {"drafted_tokens", receipt.drafted_tokens},
                                    {"accepted_tokens", receipt.accepted_tokens},
                                    {"preemptions", receipt.preemptions}}}};
  std::vector<Subject> subjects = {{"output tokens", {{"blake3", receipt.output_digest}}}};
  if (!receipt.text_sha256.empty()) subjects.push_back({"output text", {{"sha256", receipt.text_sha256}}});
  return statement(subjects, kReceiptType, predicate);
}

std::string seal_receipt(const Receipt& receipt, ReceiptContent content, const SigningKey& key) {
  return seal(kStatementPayload, receipt_statement(receipt, content), key);
}

Result<Receipt> parse_receipt(std::string_view text) {
  EADEM_ASSIGN_OR_RETURN(const Statement parsed, parse_statement(text));
  if (parsed.predicate_type != kReceiptType) {
    return no_receipt("predicateType", "\"" + std::string(kReceiptType) + "\": this statement is about something else");
  }
  const ordered_json& predicate = parsed.predicate;
  Receipt receipt;
  if (!predicate.contains("made") || !predicate["made"].is_string()) return no_receipt("made", "a string");
  receipt.made = predicate["made"].get<std::string>();
  EADEM_RETURN_IF_ERROR(read_request(predicate, receipt));
  EADEM_RETURN_IF_ERROR(read_answer(predicate, receipt));
  EADEM_RETURN_IF_ERROR(read_steps(predicate, receipt));
  EADEM_RETURN_IF_ERROR(read_identity(predicate, receipt));
  const Reader deployment(predicate, "deployment");
  EADEM_ASSIGN_OR_RETURN(receipt.deployment, deployment.digest("digest"));
  EADEM_ASSIGN_OR_RETURN(receipt.deployment_parts, deployment.object("parts"));
  const Reader lineage(predicate, "lineage");
  if (!lineage.is_object()) return no_receipt("lineage", "an object");
  EADEM_ASSIGN_OR_RETURN(receipt.cached_tokens, lineage.count("cached_tokens"));
  EADEM_ASSIGN_OR_RETURN(receipt.drafted_tokens, lineage.count("drafted_tokens"));
  EADEM_ASSIGN_OR_RETURN(receipt.accepted_tokens, lineage.count("accepted_tokens"));
  EADEM_ASSIGN_OR_RETURN(receipt.preemptions, lineage.count("preemptions"));
  const Subject& subject = parsed.subjects.front();
  const auto named = subject.digest.find("blake3");
  if (named == subject.digest.end() || named->second != receipt.output_digest) {
    return no_receipt("subject", "the output tokens with the digest of answer.output_digest");
  }
  return receipt;
}

Result<void> check_receipt(const Receipt& receipt) {
  if (canonical_digest(canonical(receipt.identity_parts)) != receipt.identity) {
    return disagrees("identity.digest", "identity.parts");
  }
  if (canonical_digest(canonical(receipt.deployment_parts)) != receipt.deployment) {
    return disagrees("deployment.digest", "deployment.parts");
  }
  if (!receipt.step_hashes.empty() &&
      !receipt.steps_digest.starts_with(to_hex(to_bytes({receipt.step_hashes.back()})))) {
    return disagrees("steps.digest", "steps.running");
  }
  if (static_cast<int64_t>(receipt.step_hashes.size()) < receipt.output_tokens) {
    return disagrees("steps.running", "answer.output_tokens");
  }
  if (!receipt.has_contents) return {};
  Receipt again = receipt;
  complete(again);
  if (again.prompt_tokens != receipt.prompt_tokens) return disagrees("request.prompt_tokens", "prompt_token_ids");
  if (again.prompt_digest != receipt.prompt_digest) return disagrees("request.prompt_digest", "prompt_token_ids");
  if (again.sampling_digest != receipt.sampling_digest) return disagrees("request.sampling_digest", "sampling");
  if (again.output_tokens != receipt.output_tokens) return disagrees("answer.output_tokens", "token_ids");
  if (again.output_digest != receipt.output_digest) return disagrees("answer.output_digest", "token_ids");
  return {};
}

}  // namespace eadem::contract
