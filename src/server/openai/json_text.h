// JSON written straight into a string, for what is written once for each token: a tree of values would cost more than
// the text. Everything else uses nlohmann's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace eadem::server {

// A quoted string. Bytes that are not UTF-8 become U+FFFD.
void append_string(std::string& out, std::string_view text);
void append_integer(std::string& out, int64_t value);
// The shortest decimal that restores the double of this float32, and so the float32 itself.
void append_float(std::string& out, float value);
// As append_float; for NaN (a masked token) `masked`: "null", or "-9999.0" where clients demand a number.
void append_logprob(std::string& out, float value, std::string_view masked);

std::string json_quote(std::string_view text);

// Whether these bytes are whole UTF-8 characters: no overlong forms, no surrogates.
bool is_utf8(std::string_view bytes);

}  // namespace eadem::server
