// Receipts: a signed statement of what was asked, what came out, under which identity, and a running hash over the
// steps, so that whoever has the model can compute the answer again and find the first step that differs
// (docs/receipts.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/keys.h"
#include "core/result.h"

namespace eadem::contract {

inline constexpr std::string_view kReceiptType = "https://eadem.dev/receipt/v1";
inline constexpr std::string_view kStepScheme = "eadem-steps-v1";  // contract/logprob_chain.h

// What of the request and the answer a receipt holds.
enum class ReceiptContent : uint8_t {
  kFull,    // prompt tokens, parameters and output tokens: the receipt alone is enough to compute the answer again
  kHashes,  // digests of these: whoever verifies must have the request
};

struct Receipt {
  std::string made;  // when, by the signer's clock: 2026-11-29T22:50:00Z
  std::string id;    // of the request; empty: none

  // The request. The digests are always there, the contents where has_contents.
  bool has_contents = true;
  std::vector<int32_t> prompt;
  nlohmann::ordered_json sampling;  // effective parameters of this answer alone: n is 1, the seed its own
  int64_t prompt_tokens = 0;
  std::string prompt_digest, sampling_digest;

  // The answer.
  int index = 0;  // among the answers of its request
  std::vector<int32_t> tokens;
  int64_t output_tokens = 0;
  std::string output_digest;
  std::string text_sha256;  // of the text in UTF-8; empty: the model has no tokenizer
  std::string finish_reason;

  // The steps: those of the prompt where its logprobs were asked for, then those of the answer.
  std::string logprobs;  // "raw" or "processed"
  std::vector<uint64_t> step_hashes;
  std::string steps_digest;

  std::string identity;
  nlohmann::ordered_json identity_parts;    // an object of strings
  std::string deployment;                   // what is proven not to matter
  nlohmann::ordered_json deployment_parts;  // an object of strings and integers

  // How the answer came about. It does not matter either.
  int64_t cached_tokens = 0, drafted_tokens = 0, accepted_tokens = 0, preemptions = 0;
};

// BLAKE3 over the token ids, each as four little-endian bytes: 64 hexadecimal digits.
std::string digest_of_tokens(std::span<const int32_t> tokens);
// BLAKE3 over the parameters as JSON with sorted keys and without blanks; a float32 is there as the shortest text of
// its value as a double.
std::string digest_of_parameters(const nlohmann::ordered_json& sampling);

// Fills the digests and counts from the contents.
void complete(Receipt& receipt);

// The in-toto statement, and the same in a DSSE envelope, on one line.
std::string receipt_statement(const Receipt& receipt, ReceiptContent content);
std::string seal_receipt(const Receipt& receipt, ReceiptContent content, const SigningKey& key);

// Reads a statement. Errors begin with "no receipt: " or "no in-toto statement: " and name the field.
Result<Receipt> parse_receipt(std::string_view statement);
// Whether a receipt agrees with itself: digests and counts with the contents, the identity with its parts, the last
// step hash with the digest of all. A signer that errs or lies makes one that does not. The error names the field.
Result<void> check_receipt(const Receipt& receipt);

}  // namespace eadem::contract
