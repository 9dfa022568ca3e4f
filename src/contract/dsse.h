// DSSE envelopes, version 1 (Dead Simple Signing Envelope, github.com/secure-systems-lab/dsse): a payload, its type,
// and signatures over both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "contract/keys.h"
#include "core/result.h"

namespace eadem::contract {

// The bytes that are signed: PAE(type, payload) = "DSSEv1" SP len(type) SP type SP len(payload) SP payload.
std::string pre_authentication_encoding(std::string_view payload_type, std::string_view payload);

struct Envelope {
  struct Signature {
    std::string key_id;  // a hint: not signed itself; empty where there is none
    std::string bytes;
  };

  std::string payload_type, payload;  // the payload decoded
  std::vector<Signature> signatures;  // at least one
};

// What an envelope can be refused for.
enum class SealFault : uint8_t { kNone, kNoEnvelope, kOtherType, kUnknownKey, kBadSignature };

// The JSON text of an envelope with one signature, on one line.
std::string seal(std::string_view payload_type, std::string_view payload, const SigningKey& key);

// Reads, checks no signature. Errors begin with "no DSSE envelope: ". Unknown fields are ignored, as the specification
// asks; "keyid", which it lets signers leave out, must be there (it may be empty): no changed bit passes unseen.
Result<Envelope> parse_envelope(std::string_view envelope_json);

// kNone where one of the signatures is the key's. kUnknownKey: none names this key (or none at all, which is tried).
SealFault check_seal(const Envelope& envelope, std::string_view payload_type, const VerifyingKey& key);

// One line that says what is wrong and what to do, for a fault other than kNone and kNoEnvelope.
Error explain_seal(SealFault fault, const Envelope& envelope, std::string_view payload_type, const VerifyingKey& key);

// The payload, once its type and signature were checked. Errors, each with its own words: no envelope, another payload
// type, an unknown key, a bad signature.
Result<std::string> unseal(std::string_view envelope_json, std::string_view payload_type, const VerifyingKey& key);

}  // namespace eadem::contract
