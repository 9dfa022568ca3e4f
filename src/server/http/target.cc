#include "server/http/target.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cctype>

#include "core/check.h"

namespace eadem::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    out += c;
  }
  return out;
}

bool lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool all_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find_first_of("/?", scheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const size_t mark = target.find('?');
  const auto path = decode(target.substr(0, mark), false);
  if (!path || !path->starts_with('/')) return std::nullopt;
  Target out{*path, {}};
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const auto key = decode(pair.substr(0, equals), true);
    const auto value = decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (!key || !value) return std::nullopt;
    out.query[*key] = *value;
  }
  return out;
}

std::string random_hex(size_t digits) {
  std::string bytes((digits + 1) / 2, '\0');
  EADEM_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1);
  std::string out;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    out += "0123456789abcdef"[value >> 4];
    out += "0123456789abcdef"[value & 15];
  }
  out.resize(digits);
  return out;
}

std::string request_id(std::string_view given) {
  const auto fine = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("._:/+=@-").find(c) != std::string::npos;
  };
  if (!given.empty() && given.size() <= 128 && std::all_of(given.begin(), given.end(), fine)) return std::string(given);
  return random_hex(32);
}

Trace continue_trace(std::string_view traceparent) {
  constexpr size_t kSize = 55, kTrace = 3, kSpan = 36, kFlags = 53;  // 00-<32 digits>-<16 digits>-<2 digits>
  std::string trace, flags = "00";
  const bool whole = traceparent.size() == kSize ||
                     (traceparent.size() > kSize && traceparent[kSize] == '-' && !traceparent.starts_with("00"));
  if (whole && traceparent[2] == '-' && traceparent[kSpan - 1] == '-' && traceparent[kFlags - 1] == '-') {
    const std::string_view id = traceparent.substr(kTrace, 32), span = traceparent.substr(kSpan, 16);
    const std::string_view version = traceparent.substr(0, 2), given = traceparent.substr(kFlags, 2);
    if (lower_hex(id) && lower_hex(span) && lower_hex(version) && lower_hex(given) && version != "ff" &&
        !all_zero(id) && !all_zero(span)) {
      trace = id;
      flags = given;
    }
  }
  if (trace.empty()) trace = random_hex(32);
  return {trace, "00-" + trace + "-" + random_hex(16) + "-" + flags};
}

}  // namespace eadem::server
