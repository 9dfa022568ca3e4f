// What the server counts, for Prometheus (GET /metrics) and for the page (GET /v1/stats). Safe from every thread and
// cheap enough for every token: counters and histograms are relaxed atomics.
//
// A handler calls, in this order: received() once a request was accepted by Service::submit; first_token() and
// inter_token() for each answer's tokens; finished() once for each answer. A request that was not accepted: refused().
//
// GET /v1/stats is one JSON object, all counts since the start, so that a page draws rates from two of them:
//   {"time": seconds since 1970, "uptime": seconds, "version": "...", "state": "loading" | "ready" | "draining",
//    "model": "...", "numerics": "...", "isa": "...", "threads": N, "fingerprint": "...",
//    "max_model_len": N, "max_num_seqs": N, "running": sequences, "waiting": sequences,
//    "kv_blocks": N, "kv_blocks_used": N, "prompt_tokens": N, "cached_tokens": N, "generation_tokens": N,
//    "requests": N, "answers": {"stop": N, "length": N, "cancelled": N, "error": N, "timeout": N},
//    "refused": {"invalid": N, "queue_full": N, "draining": N},
//    "engine": {every field of eadem::Counters under its name},
//    "histograms": {"time_to_first_token" | "inter_token" | "request": {"le": [seconds, ...], "counts": [one more than
//       le; of each bucket alone, not cumulated], "sum": seconds, "count": N}},
//    "http": {"connections": open now, "accepted": N, "refused": N, "status": {"200": N, ...}},
//    "log": {"dropped": lines}}
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/engine.h"
#include "eadem/result.h"
#include "eadem/service.h"
#include "server/http/http.h"

namespace eadem::server {

// Counts of values in fixed buckets. bounds: upper ends (inclusive), ascending; one more bucket takes what is above.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;
  explicit Histogram(std::span<const double> bounds);

  void add(double value, uint64_t times = 1);

  struct Reading {
    std::vector<double> bounds;
    std::vector<uint64_t> counts;  // one more than bounds; of each bucket alone
    double sum = 0;
    uint64_t count = 0;
  };
  Reading read() const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_{};
  std::atomic<uint64_t> millionths_{0};  // of the sum
};

enum class Refusal : uint8_t { kInvalid, kQueueFull, kDraining };

struct AnswerCounts {
  uint64_t cached_tokens = 0, completion_tokens = 0;
};

class PrometheusText;

class Metrics {
 public:
  Metrics();

  void received(uint64_t prompt_tokens);
  void refused(Refusal why);
  // Seconds from the arrival of the request to the first token of an answer.
  void first_token(double seconds);
  // Seconds from one token of an answer to its next; `tokens` of them where several came at once.
  void inter_token(double seconds, uint64_t tokens = 1);
  // One answer ended, `seconds` after its request came.
  void finished(FinishReason reason, const AnswerCounts& counts, double seconds);

  // An answer was given a signed receipt.
  void receipt();

  // One HTTP reply ended (or was cut off).
  void replied(int status);

  // What the rest of a page or a scrape is made of.
  struct Moment {
    const Engine* engine = nullptr;  // absent while loading
    ServiceStats service;
    std::string model, version, state;
    int max_num_seqs = 0;
    HttpCounts http;
    uint64_t log_dropped = 0;
  };
  // Prometheus text format 0.0.4.
  std::string prometheus(const Moment& moment) const;
  // The object described above.
  std::string stats_json(const Moment& moment) const;

 private:
  void render_answers(PrometheusText& text) const;

  using Count = std::atomic<uint64_t>;
  static constexpr size_t kReasons = 5, kRefusals = 3;

  double start_;  // seconds since 1970
  Count requests_{0}, prompt_tokens_{0}, cached_tokens_{0}, generation_tokens_{0}, receipts_{0};
  std::array<Count, kReasons> answers_{};
  std::array<Count, kRefusals> refused_{};
  Histogram first_token_, inter_token_, request_, prompt_length_, answer_length_;
  mutable std::mutex mutex_;
  std::map<int, uint64_t> status_;  // guarded by mutex_
};

}  // namespace eadem::server
