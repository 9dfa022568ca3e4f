// Replies as bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace eadem::server {

std::string_view reason_phrase(int status);

struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  std::optional<size_t> content_length;  // absent: chunked, or up to the end of the connection
  bool chunked = false;
  bool http_1_0 = false, keep_alive = true;
};

// The status line and all fields, with the empty line. Line breaks inside values of `headers` are dropped.
std::string render_head(const ResponseHead& head, const Headers& headers);

// One chunk of a chunked body; nothing where `bytes` is empty.
void append_chunk(std::string& out, std::string_view bytes);

// {"error": {"message", "type", "param", "code"}} as OpenAI's API has it; param null, an empty code null.
std::string error_body(std::string_view message, std::string_view type, std::string_view code);
// By status: authentication_error, invalid_request_error, ..., server_error.
std::string_view error_type(int status);

// A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace eadem::server
