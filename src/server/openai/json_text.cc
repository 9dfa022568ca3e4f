#include "server/openai/json_text.h"

#include <charconv>
#include <cmath>

namespace eadem::server {
namespace {

// Length of the whole UTF-8 character at the start of `bytes`; 0 where there is none.
size_t character_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f)) return 0;
  return length;
}

void append_escaped(std::string& out, unsigned char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
  }
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
      append_escaped(out, byte);
      ++i;
      continue;
    }
    const size_t length = character_length(text.substr(i));
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  out += '"';
}

void append_integer(std::string& out, int64_t value) {
  char buffer[24];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, written.ptr);
}

void append_float(std::string& out, float value) {
  char buffer[40];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, double{value});
  const std::string_view digits(buffer, static_cast<size_t>(written.ptr - buffer));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_logprob(std::string& out, float value, std::string_view masked) {
  if (std::isfinite(value)) {
    append_float(out, value);
  } else {
    out += masked;
  }
}

std::string json_quote(std::string_view text) {
  std::string out;
  append_string(out, text);
  return out;
}

bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = character_length(bytes.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace eadem::server
