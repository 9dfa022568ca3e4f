// Verifying receipts: the signature, then the answer computed again, alone or within a batch of other requests.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/dsse.h"
#include "contract/receipt.h"
#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit {

enum class ReceiptVerdict : uint8_t {
  kOpen,           // read, nothing said yet
  kSigned,         // the signature is good; nothing more was asked
  kEqual,          // computed again: every step, the text and the end are the same
  kDifferent,      // a step, the text or the end differs under the same identity: a bug, or a false receipt
  kOtherIdentity,  // made by another model, tokenizer, numerics...: nothing was computed
  kNoEnvelope,     // no DSSE envelope
  kOtherType,      // an envelope of something else
  kUnknownKey,     // signed by somebody else
  kBadSignature,   // changed after it was signed
  kNoReceipt,      // the signed text is no receipt
  kContradiction,  // the receipt's digests are not those of its contents
  kNoRequest,      // it holds hashes alone, and the request was not given
  kNotRun,         // the engine refuses the request
};

// "equal", "other_identity"...
std::string_view to_string(ReceiptVerdict verdict);
// A receipt that cannot be read or run is no failed check, but bad input.
bool is_bad_input(ReceiptVerdict verdict);

struct Verification {
  ReceiptVerdict verdict = ReceiptVerdict::kOpen;
  std::string message;  // one line; empty where the verdict says all
  contract::Receipt receipt;
  std::string key_id;                       // whose signature was checked; empty: none was
  std::vector<std::string> other_fields;    // of the identity
  nlohmann::ordered_json first_difference;  // {"field", "step", "position", "was", "is"}; null: none
};

// The envelopes in a line: itself, or those under "receipts" of an answer or its object "eadem". Errors: not JSON, or
// no envelope in it.
Result<std::vector<std::string>> envelopes_of(const std::string& line);

// Reads an envelope and checks the signature, where a key is given. kOpen where all is well so far.
Verification open_receipt(const std::string& envelope, const contract::VerifyingKey* key);

// Requests of answers (lines of `eadem generate --json`), for receipts that hold hashes alone.
class KnownRequests {
 public:
  // Errors: no answer with prompt_token_ids, seed and sampling.
  Result<void> add(const nlohmann::ordered_json& answer);
  // Puts the request into the receipt. False: it is not among them.
  bool fill(contract::Receipt& receipt) const;

 private:
  struct Contents {
    std::vector<int32_t> prompt;
    nlohmann::ordered_json sampling;
  };
  std::map<std::string, Contents> requests_;  // by both digests
};

struct VerifyOptions {
  int beside = 0;                 // other requests that run at the same time
  bool despite_identity = false;  // compute again although the identities differ
};

// Computes the answers of all that are kOpen again, many at once. done: after each of them.
void verify_receipts(Engine& engine, const VerifyOptions& options, std::vector<Verification*> receipts,
                     int most_at_once, const std::function<bool()>& go_on);

}  // namespace eadem::audit
