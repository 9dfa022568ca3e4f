// RFC 8785 (JSON Canonicalization Scheme): one sequence of bytes for one value, so that a digest over it means
// something. What everything signed or hashed here is written with.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/result.h"

namespace eadem::contract {

// Keys in the order of their UTF-16 code units, no spaces, the escapes that RFC 8785 asks for. Errors name the place
// (a JSON pointer): a floating-point number (digests are over strings and integers: no two programs need agree on how
// a float is printed), an integer beyond 2^53 - 1 either way (JavaScript could not read it back), text that is not
// UTF-8.
Result<std::string> canonical_json(const nlohmann::ordered_json& value);

// BLAKE3 of canonical bytes: 64 hexadecimal digits.
std::string canonical_digest(std::string_view canonical);

}  // namespace eadem::contract
