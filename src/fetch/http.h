// HTTP and HTTPS GET by libcurl: system certificates (or SSL_CERT_FILE, SSL_CERT_DIR), the proxy variables, redirects,
// ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace eadem::fetch {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  uint64_t offset = 0;               // first byte wanted
  std::string if_range;              // entity tag under which the offset holds; empty: none
  int stall_seconds = 60;
  bool follow_redirects = true;
};

// The answer, or why there is none. Header values are those of the last answer of a chain of redirects, except
// `linked_*`, which the hub gives with its redirect.
struct HttpReply {
  long status = 0;
  std::string content_type, etag, linked_etag, content_range, url;
  std::optional<uint64_t> length;  // of this body
  std::string fault;               // transport fault; empty where a whole answer came
  bool transient = false;          // another attempt may succeed
  bool stopped = false;            // the receiver did not want more

  bool ok() const { return fault.empty() && !stopped && status >= 200 && status < 300; }
  // One line for a user: what happened to this URL, and what to do.
  std::string describe() const;
};

// Receives pieces of the body of a successful answer; false stops the transfer.
using BodyFn = std::function<bool(const HttpReply& so_far, std::span<const std::byte> piece)>;

HttpReply http_get(const HttpRequest& request, const BodyFn& body);

struct TextReply {
  std::string text, content_type, url;
};
// A small document, at most 64 MiB, with `retries` further attempts after transient faults.
Result<TextReply> http_get_text(const HttpRequest& request, int retries, double retry_seconds);

// `relative` as seen from the document at `base`.
Result<std::string> join_url(const std::string& base, const std::string& relative);
// A path with everything but letters, digits, `-._~` and `/` percent-encoded.
std::string encode_path(std::string_view path);
// A URL without user name and password, for messages.
std::string public_url(const std::string& url);

// Sleeps before attempt `attempt` (0: the first retry).
void wait_before_retry(int attempt, double retry_seconds);

}  // namespace eadem::fetch
