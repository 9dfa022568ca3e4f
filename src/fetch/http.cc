#include "fetch/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "fetch/curl_options.h"

namespace eadem::fetch {
namespace {

struct Transfer {
  CURL* curl = nullptr;
  HttpReply reply;
  const BodyFn* body = nullptr;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  HttpReply& reply = static_cast<Transfer*>(user)->reply;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // a new answer: after a redirect, or after 100 Continue
    reply.content_type.clear();
    reply.etag.clear();
    reply.content_range.clear();
    return size;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  const std::string name = lower(line.substr(0, colon));
  const std::string value = trimmed(line.substr(colon + 1));
  if (name == "content-type") reply.content_type = lower(value);
  if (name == "etag") reply.etag = value;
  if (name == "x-linked-etag") reply.linked_etag = value;
  if (name == "content-range") reply.content_range = value;
  return size;
}

// libcurl calls this from C: exceptions must not pass through it.
size_t on_body(char* data, size_t, size_t size, void* user) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(user);
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &transfer.reply.status);
  if (transfer.reply.status < 200 || transfer.reply.status >= 300) return size;  // the text of an error page
  if (!transfer.reply.length) {
    curl_off_t length = -1;
    curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length >= 0) transfer.reply.length = static_cast<uint64_t>(length);
  }
  if ((*transfer.body)(transfer.reply, std::as_bytes(std::span(data, size)))) return size;
  transfer.reply.stopped = true;
  return CURL_WRITEFUNC_ERROR;
}

bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
  }
}

void set_options(CURL* curl, const HttpRequest& request, curl_slist* headers) {
  set_common_options(curl, request.url, headers);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_seconds));
}

}  // namespace

HttpReply http_get(const HttpRequest& request, const BodyFn& body) {
  Transfer transfer;
  transfer.body = &body;
  transfer.reply.url = request.url;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_ready() ? curl_easy_init() : nullptr,
                                                                 &curl_easy_cleanup);
  if (!curl) {
    transfer.reply.fault = "libcurl could not be initialised";
    return transfer.reply;
  }
  transfer.curl = curl.get();
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  if (request.offset > 0) {
    list = curl_slist_append(list, ("Range: bytes=" + std::to_string(request.offset) + "-").c_str());
    if (!request.if_range.empty()) list = curl_slist_append(list, ("If-Range: " + request.if_range).c_str());
  }
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  set_options(curl.get(), request, headers.get());
  std::array<char, CURL_ERROR_SIZE> detail{};
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, detail.data());
  curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  const CURLcode code = curl_easy_perform(curl.get());
  HttpReply reply = std::move(transfer.reply);
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  if (const char* url = nullptr; curl_easy_getinfo(curl.get(), CURLINFO_EFFECTIVE_URL, &url) == CURLE_OK && url) {
    reply.url = url;
  }
  if (code != CURLE_OK && !reply.stopped) {
    reply.fault = curl_fault(code, detail.data());
    reply.transient = is_transient(code);
  }
  if (reply.status == 408 || reply.status == 429 || reply.status >= 500) reply.transient = true;
  return reply;
}

std::string HttpReply::describe() const {
  const std::string where = public_url(url);
  if (!fault.empty()) return where + ": " + fault;
  if (stopped) return where + ": stopped";
  if (status == 401 || status == 403) {
    return where + ": access refused (HTTP " + std::to_string(status) +
           "); if it needs an account, set HF_TOKEN or the index's password";
  }
  if (status == 404) return where + ": not found (HTTP 404); check the name";
  return where + ": HTTP " + std::to_string(status);
}

Result<TextReply> http_get_text(const HttpRequest& request, int retries, double retry_seconds) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  for (int attempt = 0;; ++attempt) {
    std::string text;
    bool too_long = false;
    const HttpReply reply = http_get(request, [&](const HttpReply&, std::span<const std::byte> piece) {
      too_long = text.size() + piece.size() > kMaxBytes;
      if (!too_long) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return !too_long;
    });
    if (reply.ok()) return TextReply{std::move(text), reply.content_type, reply.url};
    if (too_long) return Error{public_url(request.url) + ": longer than 64 MiB, so it is no index"};
    if (!reply.transient || attempt >= retries) return Error{reply.describe()};
    wait_before_retry(attempt, retry_seconds);
  }
}

Result<std::string> join_url(const std::string& base, const std::string& relative) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle(curl_url(), &curl_url_cleanup);
  char* joined = nullptr;
  if (!handle || curl_url_set(handle.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle.get(), CURLUPART_URL, relative.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle.get(), CURLUPART_FRAGMENT, nullptr, 0) != CURLUE_OK ||
      curl_url_get(handle.get(), CURLUPART_URL, &joined, 0) != CURLUE_OK) {
    return Error{"not a URL: '" + relative + "' (seen from " + public_url(base) + ")"};
  }
  std::string url(joined);
  curl_free(joined);
  return url;
}

std::string encode_path(std::string_view path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::string public_url(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const size_t host = scheme + 3;
  const size_t end = std::min(url.find('/', host), url.size());
  const size_t at = url.rfind('@', end);
  const size_t query = std::min(url.find('?'), url.size());  // signed links carry secrets there
  if (at == std::string::npos || at < host) return url.substr(0, query);
  return url.substr(0, host) + url.substr(at + 1, query - at - 1);
}

void wait_before_retry(int attempt, double retry_seconds) {
  const double seconds = std::min(retry_seconds * std::ldexp(1.0, std::min(attempt, 10)), 30.0);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace eadem::fetch
