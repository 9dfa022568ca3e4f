// Breaks of a baseline that somebody approved: in-toto statements in DSSE envelopes, one a line of `approvals.jsonl`
// beside the baseline. An approval names each answer that it covers, before and after; it covers nothing else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "audit/baseline.h"
#include "contract/keys.h"

namespace eadem::audit {

inline constexpr std::string_view kApprovalType = "https://eadem.dev/gate-approval/v1";

struct Approval {
  std::string fault;  // why it does not count; empty: it does
  std::string key_id, signer, date, reason;
  std::string from, to;  // digests of the baseline, and of what it would be now
  std::string identity_from, identity_to;
  struct Change {
    std::string was, is;  // digests of the answer
  };
  std::map<std::string, Change> answers;  // by RecordedAnswer::name

  bool counts() const { return fault.empty(); }
};

// Beside the baseline.
std::string approvals_path(const std::string& baseline_path);

// Those of the baseline with this digest, in the order of the file; of none where there is no file. An envelope that
// cannot be read, whose signature is bad, or whose key is none of `trusted`, is listed with its fault. Errors: the file
// cannot be read.
Result<std::vector<Approval>> read_approvals(const std::string& path, const std::string& baseline_digest,
                                             const std::vector<contract::VerifyingKey>& trusted);

// Appends it, sealed with the key.
Result<void> append_approval(const std::string& path, const Approval& approval, const contract::SigningKey& key);

}  // namespace eadem::audit
