// Every field of every request body, in one table: what is accepted where, what the description at /openapi.json says
// of it, and what is refused with a reason of its own. Handlers read bodies through split_body alone, so that the
// description and the handlers cannot disagree about names.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::server {

enum Endpoint : uint32_t {
  kCompletions = 1,
  kChat = 2,
  kEmbeddings = 4,
  kTokenize = 8,
  kDetokenize = 16,
  kVerify = 32,
};

enum class FieldKind : uint8_t {
  kOwn,       // read by the endpoint
  kSampling,  // read by api::parse_sampling
  kNoEffect,  // accepted, and without effect here
};

struct Field {
  std::string_view name;
  uint32_t endpoints;  // of Endpoint
  FieldKind kind;
  std::string_view schema;  // JSON schema; null counts as absent everywhere
  std::string_view about;
};

struct RefusedField {
  std::string_view name;
  std::string_view reason;
};

std::span<const Field> all_fields();
// Known names that are refused, with what to do instead.
std::span<const RefusedField> refused_fields();

struct Body {
  nlohmann::ordered_json own = nlohmann::ordered_json::object();       // kOwn, without nulls
  nlohmann::ordered_json sampling = nlohmann::ordered_json::object();  // kSampling, without nulls
};

// Parses a body. Errors: no JSON object, nested too deep, a field twice, a field that this endpoint does not have.
Result<Body> split_body(std::string_view text, Endpoint endpoint);

// Typed reading of `own`: absent fields leave `out` as it is. Errors name the field.
Result<void> read_bool(const nlohmann::ordered_json& own, const char* field, bool& out);
Result<void> read_string(const nlohmann::ordered_json& own, const char* field, std::string& out);
Result<void> read_int(const nlohmann::ordered_json& own, const char* field, int64_t least, int64_t most, int64_t& out);
// An array of token ids, each from 0 to 2^31 - 1.
Result<std::vector<int32_t>> read_token_ids(const nlohmann::ordered_json& value, std::string_view field);

// "field 'x' must be ...".
Error must_be(std::string_view field, std::string_view wanted);

}  // namespace eadem::server
