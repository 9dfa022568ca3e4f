#include "server/http/response.h"

#include <array>
#include <charconv>
#include <ctime>

namespace eadem::server {
namespace {

struct Reason {
  int status;
  std::string_view phrase;
};

constexpr Reason kReasons[] = {{100, "Continue"},
                               {200, "OK"},
                               {204, "No Content"},
                               {304, "Not Modified"},
                               {400, "Bad Request"},
                               {401, "Unauthorized"},
                               {403, "Forbidden"},
                               {404, "Not Found"},
                               {405, "Method Not Allowed"},
                               {408, "Request Timeout"},
                               {409, "Conflict"},
                               {413, "Content Too Large"},
                               {415, "Unsupported Media Type"},
                               {417, "Expectation Failed"},
                               {422, "Unprocessable Content"},
                               {429, "Too Many Requests"},
                               {431, "Request Header Fields Too Large"},
                               {500, "Internal Server Error"},
                               {501, "Not Implemented"},
                               {503, "Service Unavailable"},
                               {504, "Gateway Timeout"},
                               {505, "HTTP Version Not Supported"}};

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') out += c;
  }
  out += "\r\n";
}

// RFC 9110's form, made once a second. One thread renders heads, but tests may have several.
std::string_view http_date() {
  thread_local std::time_t made = -1;
  thread_local std::array<char, 40> text{};
  thread_local size_t size = 0;
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    made = now;
  }
  return {text.data(), size};
}

// Length of the UTF-8 character that begins at `at`; 0 where there is none.
size_t character_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead < 0xf0) {
    const bool fine = lead == 0xe0 ? byte(1) >= 0xa0 : lead == 0xed ? byte(1) < 0xa0 : true;
    return fine && tail(1) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead < 0xf5) {
    const bool fine = lead == 0xf0 ? byte(1) >= 0x90 : lead == 0xf4 ? byte(1) < 0x90 : true;
    return fine && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string_view reason_phrase(int status) {
  for (const Reason& reason : kReasons) {
    if (reason.status == status) return reason.phrase;
  }
  return "Status";
}

std::string render_head(const ResponseHead& head, const Headers& headers) {
  std::string out = head.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out.append(std::to_string(head.status)).append(" ").append(reason_phrase(head.status)).append("\r\n");
  append_field(out, "Date", http_date());
  append_field(out, "Server", "eadem");
  if (!head.content_type.empty()) append_field(out, "Content-Type", head.content_type);
  if (head.content_length) append_field(out, "Content-Length", std::to_string(*head.content_length));
  if (head.chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (!head.keep_alive) {
    append_field(out, "Connection", "close");
  } else if (head.http_1_0) {
    append_field(out, "Connection", "keep-alive");
  }
  for (const auto& [name, value] : headers) append_field(out, name, value);
  return out += "\r\n";
}

void append_chunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  std::array<char, 20> size{};
  const auto [end, fault] = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16);
  out.append(size.data(), end).append("\r\n").append(bytes).append("\r\n");
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    const char c = text[at];
    if (size == 0) {
      out += "\xef\xbf\xbd";
    } else if (size > 1) {
      out.append(text.substr(at, size));
    } else if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += "0123456789abcdef"[c >> 4];
      out += "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
    at += size == 0 ? 1 : size;
  }
  return out += '"';
}

std::string error_body(std::string_view message, std::string_view type, std::string_view code) {
  return "{\"error\":{\"message\":" + json_string(message) + ",\"type\":" + json_string(type) +
         ",\"param\":null,\"code\":" + (code.empty() ? "null" : json_string(code)) + "}}";
}

std::string_view error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace eadem::server
