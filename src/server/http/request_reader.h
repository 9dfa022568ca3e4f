// Bytes in, a request out: one HTTP/1 request, read by Beast's parser within limits. Knows no sockets, so that it can
// be fuzzed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace eadem::server {

struct ReaderLimits {
  size_t header = size_t{16} << 10;  // bytes of the request line and all fields; likewise of one chunk's head
  size_t body = size_t{32} << 20;
};

class RequestReader {
 public:
  enum class State : uint8_t { kHeader, kBody, kDone, kFailed };

  explicit RequestReader(const ReaderLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Takes bytes from the front of `bytes` and returns how many; stops behind the header once, so that a request can be
  // refused before its body is read, and behind the request. What was not taken must come again, with more behind it.
  size_t feed(std::string_view bytes);
  State state() const { return state_; }

  // From kBody on: method, path, query, headers; from kDone on the body too. request_id and the like are not its.
  HttpRequest& request() { return request_; }
  bool head_only() const { return head_only_; }
  bool http_1_0() const { return http_1_0_; }
  bool keep_alive() const { return keep_alive_; }
  bool expects_continue() const { return expects_continue_; }

  // Where it failed: the status to answer with, and why.
  int fault_status() const { return fault_status_; }
  const std::string& fault() const { return fault_; }

 private:
  struct Parser;

  void fail(int status, std::string why);
  void take_header();

  std::unique_ptr<Parser> parser_;
  size_t header_limit_, header_used_ = 0;
  State state_ = State::kHeader;
  HttpRequest request_;
  bool head_only_ = false, http_1_0_ = false, keep_alive_ = false, expects_continue_ = false;
  int fault_status_ = 0;
  std::string fault_;
};

}  // namespace eadem::server
