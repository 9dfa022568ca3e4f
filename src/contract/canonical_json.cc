#include "contract/canonical_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "text/blake3.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kLargest = (int64_t{1} << 53) - 1;

// One code point of UTF-8 text from `at` on, which moves past it; -1 where the bytes are no UTF-8 (RFC 3629).
int32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at);
  if (first < 0x80) return text[at++];
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || at + static_cast<size_t>(more) >= text.size()) return -1;
  int32_t code = first & (0x3f >> more);
  for (int i = 1; i <= more; ++i) {
    const uint8_t next = byte(at + static_cast<size_t>(i));
    if ((next & 0xc0) != 0x80) return -1;
    code = code << 6 | (next & 0x3f);
  }
  const int32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return -1;
  at += static_cast<size_t>(more) + 1;
  return code;
}

// Empty optional: no UTF-8.
std::optional<std::u16string> to_utf16(std::string_view text) {
  std::u16string units;
  for (size_t at = 0; at < text.size();) {
    const int32_t code = next_code_point(text, at);
    if (code < 0) return std::nullopt;
    if (code < 0x10000) {
      units += static_cast<char16_t>(code);
    } else {
      units += static_cast<char16_t>(0xd800 + ((code - 0x10000) >> 10));
      units += static_cast<char16_t>(0xdc00 + ((code - 0x10000) & 0x3ff));
    }
  }
  return units;
}

void write_text(std::string_view text, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          out += "\\u00";
          out += kDigits[c >> 4];
          out += kDigits[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

Result<void> write(const ordered_json& value, const std::string& where, std::string& out);

Result<void> write_object(const ordered_json& object, const std::string& where, std::string& out) {
  struct Member {
    std::u16string order;
    const std::string* key;
    const ordered_json* value;
  };
  std::vector<Member> members;
  for (const auto& [key, value] : object.items()) {
    auto order = to_utf16(key);
    if (!order) return Error{"canonical JSON: a key of " + where + " is not UTF-8"};
    members.push_back({std::move(*order), &key, &value});
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.order < b.order; });
  out += '{';
  for (const Member& member : members) {
    if (&member != members.data()) out += ',';
    write_text(*member.key, out);
    out += ':';
    EADEM_RETURN_IF_ERROR(write(*member.value, where + "/" + *member.key, out));
  }
  out += '}';
  return {};
}

Result<void> write_integer(const ordered_json& value, const std::string& where, std::string& out) {
  const bool large = value.is_number_unsigned() ? value.get<uint64_t>() > uint64_t{kLargest}
                                                : value.get<int64_t>() > kLargest || value.get<int64_t>() < -kLargest;
  if (large) return Error{"canonical JSON: " + where + " is an integer beyond 2^53 - 1; write it as a string"};
  out += value.dump();
  return {};
}

Result<void> write(const ordered_json& value, const std::string& where, std::string& out) {
  if (value.is_object()) return write_object(value, where, out);
  if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      EADEM_RETURN_IF_ERROR(write(value[i], where + "/" + std::to_string(i), out));
    }
    out += ']';
    return {};
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!to_utf16(text)) return Error{"canonical JSON: " + where + " is not UTF-8"};
    write_text(text, out);
    return {};
  }
  if (value.is_number_integer()) return write_integer(value, where, out);
  if (value.is_boolean() || value.is_null()) {
    out += value.dump();
    return {};
  }
  return Error{"canonical JSON: " + where + " is a floating-point number, whose text no two programs need agree on"};
}

}  // namespace

Result<std::string> canonical_json(const ordered_json& value) {
  std::string out;
  EADEM_RETURN_IF_ERROR(write(value, "", out));
  return out;
}

std::string canonical_digest(std::string_view canonical) {
  text::Blake3 hash;
  hash.update(canonical);
  return hash.hex_digest();
}

}  // namespace eadem::contract
