// Whether two runs promise equal bits, and if a difference of bits is a bug.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "core/result.h"

namespace eadem::audit {

// What is known of one side: a file that `eadem info --json` or GET /v1/fingerprint gave (empty: none), and the
// fingerprints and numerics that its answers tell.
struct IdentitySide {
  std::string about;
  std::set<std::string> fingerprints, numerics;
};

// {"equal": true, false or null (not told), "differing": [{"field", "a", "b"}], "deployment_differing": the same,
// "bug", "statement"}. bug: bits differ although the identity is the same. Errors: a file that cannot be read or tells
// no fingerprint, or another one than its side's answers.
Result<nlohmann::ordered_json> identity_report(const IdentitySide& a, const IdentitySide& b, bool bits_differ);

}  // namespace eadem::audit
