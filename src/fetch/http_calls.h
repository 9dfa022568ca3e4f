// HTTP calls side by side: GET or POST, bodies as they come (server-sent events, for one), a limit to each wait. One
// thread does everything, inside of poll(): receivers never race, and what arrived together can be told from what
// arrived one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace eadem::fetch {

struct HttpCall {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::optional<std::string> body;   // POST with this; absent: GET
  double connect_seconds = 10.0;
  double stall_seconds = 60.0;   // without a byte
  double total_seconds = 600.0;  // from start to end
};

// How a call ended. Redirects are not followed: a key would go with them.
struct CallReply {
  enum class Fault : uint8_t {
    kNone,
    kUnreachable,  // no connection: no such host, nobody listens, TLS
    kTimeout,      // one of the limits
    kBroken,       // the connection ended before the body did, or what came was no HTTP
    kUnwanted,     // the receiver did not want more
  };

  std::string url;  // without user name and password
  long status = 0;  // 0: none came
  std::string content_type, location;
  std::optional<double> retry_after;  // seconds, where the header gave them as a number
  std::string error_text;             // the body of an answer other than 2xx, its first 64 KiB
  Fault fault = Fault::kNone;
  std::string detail;  // the fault in words, with a remedy where there is one

  bool ok() const { return fault == Fault::kNone && status >= 200 && status < 300; }
};

class HttpCalls {
 public:
  // A piece of a successful answer's body; false: no more is wanted.
  using PieceFn = std::function<bool(std::string_view piece)>;
  // Called once, unless the call was cancelled.
  using DoneFn = std::function<void(const CallReply& reply)>;

  static Result<std::unique_ptr<HttpCalls>> create();
  ~HttpCalls();
  HttpCalls(const HttpCalls&) = delete;
  HttpCalls& operator=(const HttpCalls&) = delete;

  // Starts a call; its number.
  uint64_t add(HttpCall call, PieceFn piece, DoneFn done);
  // Closes the connection, as a client that goes away. Unknown numbers are ignored. Not from inside a receiver.
  void cancel(uint64_t number);
  // Waits until something happens, at most so long, and calls receivers. Each call is one round.
  void poll(double seconds);
  // How often poll() was called: what two receivers were given in one round arrived, for all that is known, together.
  uint64_t round() const;
  size_t running() const;

 private:
  struct State;
  explicit HttpCalls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eadem::fetch
