// Requests to one endpoint, side by side, with the moment at which each piece of each answer came.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/black_box/answer.h"
#include "audit/black_box/event_stream.h"
#include "core/result.h"
#include "fetch/http.h"
#include "fetch/http_calls.h"

namespace eadem::audit::black_box {

struct EndpointOptions {
  std::string url;                 // "http://host:port", with or without "/v1"
  std::string model;               // empty: the first that /v1/models names
  std::string api_key;             // sent as a bearer token; empty: none
  double timeout_seconds = 120.0;  // without a byte from the endpoint
  int max_concurrent = 16;         // requests at once, at most
};

// A POST of a JSON body.
struct Ask {
  std::string path;  // "/completions"
  nlohmann::ordered_json body;
  bool stream() const { return body.value("stream", false); }
};

// A request on its way, and then its answer.
struct Sent {
  // Pieces that brought tokens. Marks of one round came together, for all that is known.
  struct Mark {
    uint64_t round;
    int tokens;
  };
  // Why there is no answer.
  enum class Fault : uint8_t { kNone, kUnreachable, kRefused, kMissing, kRejected, kBusy, kFailed, kBroken, kTimeout };

  Ask ask;
  bool done = false, gone = false;  // gone: this side went away
  Fault fault = Fault::kNone;
  std::string message;  // of the fault: what happened to which URL, and what to do
  long status = 0;
  Answer answer;
  std::vector<Mark> marks;
  uint64_t sent_round = 0, done_round = 0;
  double seconds = 0.0;  // from sending to the end
  int retries = 0;       // after 429, or 503 with Retry-After

  bool ok() const { return done && !gone && fault == Fault::kNone; }
  bool begun() const { return done || !marks.empty(); }
};

// What a gauge of /metrics said.
struct Reading {
  uint64_t asked_round, told_round;
  double running;
};

struct Page {
  long status = 0;
  std::string text;
  std::string fault;  // of the transport; empty where an answer came
  bool unreachable = false;
};

class Traffic {
 public:
  // stop: whether an interrupt came. The error names what is wrong with the URL.
  static Result<std::unique_ptr<Traffic>> open(const EndpointOptions& options, std::function<bool()> stop);

  std::shared_ptr<Sent> send(Ask ask);
  // Closes the connection of a request whose answer is not wanted any more.
  void leave(Sent& sent);
  // Lets things happen until the condition holds (true), `seconds` have passed, or an interrupt came (false).
  bool run_until(const std::function<bool()>& condition, double seconds);
  // One request with nothing else of ours under way, to its end.
  std::shared_ptr<Sent> ask_alone(Ask ask);
  // A document of the endpoint. root: beside /v1 instead of under it.
  Page get(const std::string& path, bool root);

  // From now on the gauge of /metrics is read all the time while anything is under way; an empty name ends it.
  void watch(std::string gauge) { gauge_ = std::move(gauge); }
  const std::string& gauge() const { return gauge_; }
  const std::vector<Reading>& readings() const { return readings_; }
  // After requests were left: until the gauge says that nothing runs, or as long as 30 s. Without a gauge nothing can
  // be waited for.
  void settle();

  bool stopped() const { return stop_(); }
  std::string url() const { return fetch::public_url(base_); }  // "http://host:port/v1"
  uint64_t requests() const { return requests_; }
  int retries() const { return retries_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight;

  Traffic(const EndpointOptions& options, std::unique_ptr<fetch::HttpCalls> calls, std::function<bool()> stop);
  void start(const std::shared_ptr<Flight>& flight);
  void end(Flight& flight, const fetch::CallReply& reply);
  bool try_later(Flight& flight, const fetch::CallReply& reply);
  void explain(Sent& sent, const fetch::CallReply& reply) const;
  void read_gauge();
  fetch::HttpCall call(const std::string& url) const;

  EndpointOptions options_;
  std::string base_, root_;
  std::unique_ptr<fetch::HttpCalls> calls_;
  std::function<bool()> stop_;
  std::vector<std::shared_ptr<Flight>> flights_;
  std::string gauge_;
  std::vector<Reading> readings_;
  bool reading_ = false;
  Clock::time_point next_reading_{};
  uint64_t requests_ = 0;
  int retries_ = 0;
};

// The sum over all labels of a sample in Prometheus' text format; nothing where the name does not occur.
std::optional<double> sample_of(const std::string& metrics, const std::string& name);

}  // namespace eadem::audit::black_box
