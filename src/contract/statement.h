// in-toto Statements, version 1 (github.com/in-toto/attestation): which subjects a predicate speaks of.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace eadem::contract {

// The payload type of a statement in a DSSE envelope.
inline constexpr std::string_view kStatementPayload = "application/vnd.in-toto+json";
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";

struct Subject {
  std::string name;
  std::map<std::string, std::string> digest;  // algorithm -> hexadecimal digits, at least one
};

struct Statement {
  std::vector<Subject> subjects;  // at least one
  std::string predicate_type;     // a URI
  nlohmann::ordered_json predicate;
};

// The JSON text, on one line; fields of the predicate keep their order.
std::string statement(const std::vector<Subject>& subjects, std::string_view predicate_type,
                      const nlohmann::ordered_json& predicate);

// Errors begin with "no in-toto statement: ". Unknown fields are ignored, as the specification asks.
Result<Statement> parse_statement(std::string_view json);

}  // namespace eadem::contract
