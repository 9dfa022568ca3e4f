#include "contract/dsse.h"

#include <nlohmann/json.hpp>

#include "contract/base64.h"
#include "contract/json_text.h"
#include "weights/message.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostSignatures = 64;

Error no_envelope(const std::string& what) { return {"no DSSE envelope: " + what}; }

Result<std::string> read_text(const ordered_json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    return no_envelope("field '" + std::string(field) + "' must be a string");
  }
  return found->get<std::string>();
}

Result<std::string> read_bytes(const ordered_json& object, const char* field) {
  EADEM_ASSIGN_OR_RETURN(const std::string text, read_text(object, field));
  auto bytes = from_base64(text);
  if (!bytes) return no_envelope("field '" + std::string(field) + "' is not base64");
  return *std::move(bytes);
}

}  // namespace

std::string pre_authentication_encoding(std::string_view payload_type, std::string_view payload) {
  std::string bytes = "DSSEv1 " + std::to_string(payload_type.size()) + " ";
  bytes.append(payload_type).append(" " + std::to_string(payload.size()) + " ").append(payload);
  return bytes;
}

std::string seal(std::string_view payload_type, std::string_view payload, const SigningKey& key) {
  const std::string signature = key.sign(pre_authentication_encoding(payload_type, payload));
  const ordered_json envelope = {{"payload", to_base64(payload)},
                                 {"payloadType", payload_type},
                                 {"signatures", {{{"keyid", key.key_id()}, {"sig", to_base64(signature)}}}}};
  return envelope.dump();
}

Result<Envelope> parse_envelope(std::string_view envelope_json) {
  const auto parsed = parse_json(envelope_json);
  if (!parsed.ok()) return no_envelope(parsed.error().message);
  const ordered_json& object = parsed.value();
  if (!object.is_object()) return no_envelope("not a JSON object");
  Envelope envelope;
  EADEM_ASSIGN_OR_RETURN(envelope.payload_type, read_text(object, "payloadType"));
  EADEM_ASSIGN_OR_RETURN(envelope.payload, read_bytes(object, "payload"));
  const auto signatures = object.find("signatures");
  if (signatures == object.end() || !signatures->is_array() || signatures->empty()) {
    return no_envelope("field 'signatures' must be an array of at least one signature");
  }
  if (signatures->size() > kMostSignatures) {
    return no_envelope("more than " + std::to_string(kMostSignatures) + " signatures");
  }
  for (const ordered_json& entry : *signatures) {
    if (!entry.is_object()) return no_envelope("a signature must be an object");
    Envelope::Signature signature;
    EADEM_ASSIGN_OR_RETURN(signature.key_id, read_text(entry, "keyid"));
    EADEM_ASSIGN_OR_RETURN(signature.bytes, read_bytes(entry, "sig"));
    envelope.signatures.push_back(std::move(signature));
  }
  return envelope;
}

SealFault check_seal(const Envelope& envelope, std::string_view payload_type, const VerifyingKey& key) {
  if (envelope.payload_type != payload_type) return SealFault::kOtherType;
  const std::string message = pre_authentication_encoding(envelope.payload_type, envelope.payload);
  SealFault fault = SealFault::kUnknownKey;
  for (const Envelope::Signature& signature : envelope.signatures) {
    if (!signature.key_id.empty() && signature.key_id != key.key_id()) continue;
    if (key.verify(message, signature.bytes)) return SealFault::kNone;
    fault = SealFault::kBadSignature;
  }
  return fault;
}

Error explain_seal(SealFault fault, const Envelope& envelope, std::string_view payload_type, const VerifyingKey& key) {
  switch (fault) {
    case SealFault::kOtherType:
      return {"another payload type: " + weights::quote(envelope.payload_type) + " instead of " +
              weights::quote(payload_type) + ": this is a document of another kind"};
    case SealFault::kUnknownKey:
      return {"unknown key: signed by " + weights::quote(envelope.signatures.front().key_id) + ", not by '" +
              key.key_id() + "': give the signer's public key"};
    case SealFault::kBadSignature:
      return {"bad signature: the document or its signature was changed after key '" + key.key_id() +
              "' signed, or another key did"};
    case SealFault::kNone:
    case SealFault::kNoEnvelope: break;
  }
  return no_envelope("it cannot be read");
}

Result<std::string> unseal(std::string_view envelope_json, std::string_view payload_type, const VerifyingKey& key) {
  EADEM_ASSIGN_OR_RETURN(Envelope envelope, parse_envelope(envelope_json));
  const SealFault fault = check_seal(envelope, payload_type, key);
  if (fault != SealFault::kNone) return explain_seal(fault, envelope, payload_type, key);
  return std::move(envelope.payload);
}

}  // namespace eadem::contract
