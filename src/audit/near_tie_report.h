// Near ties as a document: JSON for machines (and for the page of audit/report.h), and a few lines for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "audit/near_tie.h"

namespace eadem::audit {

// {"kind": "near-tie", "schema": 1, "verdict", "summary", "subject", "counts", "corpus", "runs", "control",
// "difference", "margins", "differences", "categories", "prompts", "skipped"}; docs/near-ties.md says what each is.
// The verdict is "done", or "fail" where the control was not equal, bit for bit.
nlohmann::ordered_json near_tie_report(const NearTies& ties, const Corpus& corpus);

std::string near_tie_text(const nlohmann::ordered_json& report);

}  // namespace eadem::audit
