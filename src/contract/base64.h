// Bytes as text: base64 (RFC 4648) and hexadecimal digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace eadem::contract {

// Two lower-case digits a byte.
std::string to_hex(std::string_view bytes);

// The standard alphabet, with padding.
std::string to_base64(std::string_view bytes);

// Either alphabet (standard, or the one for URLs), padded. Nothing where the text is no such: another character, a
// length that is no multiple of four, bits of the last character that stand for nothing. One text alone per alphabet
// decodes to the same bytes, so that no changed bit passes unseen.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace eadem::contract
