// The wire: listens, keeps connections within limits, and calls handlers. One thread serves all connections; handlers
// run on a few workers. Nothing here knows of models.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "server/http/http.h"
#include "server/http/request_reader.h"

namespace eadem::server {

// Which pages of other origins may call (CORS); "*" stands for all.
struct CorsOptions {
  std::vector<std::string> origins = {"*"}, methods = {"*"}, headers = {"*"};
  bool credentials = false;
};

// One request that has ended, well or not; for the log and the counters.
struct RequestRecord {
  std::chrono::system_clock::time_point time;  // when its header had come
  std::string request_id, trace_id, remote, method, path;
  int status = 0;                        // 499: the client went before the reply had ended
  uint64_t bytes_in = 0, bytes_out = 0;  // of the bodies
  double seconds = 0;                    // from its header to the last byte handed to the connection
  RequestFacts facts;
  std::string fault;  // why the wire itself refused it or cut it off
  std::string body;   // of the request, where WireOptions::keep_bodies
};

struct WireOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                       // 0: any free one
  std::string uds;                       // path of a Unix socket, instead of host and port
  std::string tls_certificate, tls_key;  // PEM files; both or none
  std::vector<std::string> api_keys;     // none: everyone may call
  std::string root_path;                 // a prefix that proxies leave on: requests below it are served as without
  CorsOptions cors;
  ReaderLimits limits;
  int max_connections = 4096;
  size_t max_unsent = size_t{4} << 20;                    // bytes of one stream that its client has not taken
  int workers = 2;                                        // threads for handlers
  bool keep_bodies = false;                               // copy each request's body to its record
  std::chrono::milliseconds idle_timeout{75000};          // between requests
  std::chrono::milliseconds header_timeout{10000};        // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60000};          // from there to the end of its body
  std::chrono::milliseconds write_timeout{30000};         // for a client to take anything at all
  std::function<void(const RequestRecord&)> on_finished;  // on the thread that serves connections: must be short
};

class Wire {
 public:
  // Listens from then on, with no routes yet: everything is answered 503. Errors: the address is in use or unknown, a
  // certificate or key that cannot be used.
  static Result<std::unique_ptr<Wire>> open(WireOptions options);
  // stop()s.
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // starting: more routes will come; whatever is not among these is answered 503 until then, not 404.
  void set_routes(std::vector<Route> routes, bool starting = false);
  // "http://127.0.0.1:8000", or "unix:/path".
  const std::string& address() const;
  int port() const;

  // From now on requests are answered 503, but those of open routes, and every connection closes after its reply.
  void drain();
  // No request is under way and no reply is unsent.
  bool idle() const;
  // Cuts every connection off; returns once no handler runs any more.
  void stop();
  HttpCounts counts() const;

 private:
  struct State;
  explicit Wire(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eadem::server
