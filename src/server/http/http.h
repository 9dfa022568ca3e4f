// What a handler sees of HTTP: a request that has come in whole, and the reply it gives. The wire (connections, TLS,
// limits, timeouts) is behind Reply; handlers know nothing of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eadem::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;                          // upper case; HEAD comes as GET (its body is dropped by the wire)
  std::string path;                            // without the query, percent-decoded
  std::string tail;                            // what stood for the {name} at the end of Route::path
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string remote;                             // address of the peer
  std::string request_id;                         // X-Request-Id as it came, or one of ours; repeated in the reply
  std::chrono::steady_clock::time_point arrival;  // when it had come in whole
  std::string trace_id;                           // W3C traceparent: 32 hexadecimal digits, of the request or new
};

// What a handler tells of its request for the log and the metrics: never text of a prompt or an answer.
struct RequestFacts {
  std::string model;
  int64_t prompt_tokens = -1, completion_tokens = -1;  // -1: not known
  std::optional<uint64_t> seed;
  std::string finish_reason;  // of the first answer, "cancelled" where the client went
};

// One reply: either send() once, or begin_stream(), write() as often as wanted, end(). Safe from every thread; calls
// after the client is gone do nothing. A reply that is dropped unfinished closes its connection (and answers 500 where
// nothing was sent).
class Reply {
 public:
  virtual ~Reply() = default;

  virtual void send(int status, std::string_view content_type, std::string body, Headers headers = {}) = 0;

  virtual void begin_stream(int status, std::string_view content_type, Headers headers = {}) = 0;
  // Queues bytes; never blocks. A client that does not read is cut off at the server's limit of unsent bytes.
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;

  // Called at most once, when the client goes before the reply has ended (at once where it is gone already). It runs on
  // the thread that serves connections and must be short.
  virtual void on_disconnect(std::function<void()> callback) = 0;

  // For the line of this request in the log; the last call counts, and only one before the reply has ended.
  virtual void note(RequestFacts facts) = 0;
};

// Runs on a worker thread, never on the one that serves connections: it may parse, render and tokenise.
using Handler = std::function<void(const HttpRequest& request, std::shared_ptr<Reply> reply)>;

// What the wire tells: connections open now, and taken and refused since the start.
struct HttpCounts {
  uint64_t open = 0, accepted = 0, refused = 0;
};

struct Route {
  std::string method;
  std::string
      path;  // exact; or "/v1/models/{name}", where {name} at the end takes all the rest (slashes too, not empty)
  Handler handler;
  bool open = false;  // needs no API key, and is answered while the server drains
};

}  // namespace eadem::server
