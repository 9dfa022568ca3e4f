// A matrix's result as files: for machines, for CI, for people.
#pragma once

#include <optional>
#include <string>

#include "audit/verdict.h"
#include "contract/keys.h"
#include "core/result.h"

namespace eadem::audit {

// https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
inline constexpr std::string_view kTestResultType = "https://in-toto.io/attestation/test-result/v0.1";

// The in-toto statement about the model's identities: result PASSED or FAILED, the names of the cells that passed and
// failed ("fma32-v1/batch.size"), and the whole document under "eadem".
std::string acceptance_statement(const MatrixResult& result);

// JUnit XML: a test suite for each numerics, a test case for each cell.
std::string acceptance_junit(const MatrixResult& result);

// Writes accept.json (the statement; sealed in a DSSE envelope where there is a key), junit.xml and accept.html to
// `folder`, which is made where it does not exist. Errors name the file.
Result<void> write_acceptance(const MatrixResult& result, const std::string& folder,
                              const std::optional<contract::SigningKey>& key);

}  // namespace eadem::audit
