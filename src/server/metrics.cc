#include "server/metrics.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "api/counter_names.h"
#include "server/prometheus_text.h"

namespace eadem::server {
namespace {

// Seconds. The first are those that routers and dashboards for vLLM expect.
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25,  0.5,   0.75,
                                  1,     2.5,   5,    7.5,  10,   20,   40,   80,  160.0, 640.0, 2560.0};
constexpr double kInterToken[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                                  0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80.0};
constexpr double kWhole[] = {0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5,   5,     10,
                             15,   20,  30,  40,  50,  60, 120, 240, 480.0, 960.0, 1920.0};
constexpr double kTokens[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

constexpr double kMillion = 1e6;

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void bump(std::atomic<uint64_t>& count, uint64_t by = 1) { count.fetch_add(by, std::memory_order_relaxed); }
uint64_t value(const std::atomic<uint64_t>& count) { return count.load(std::memory_order_relaxed); }

constexpr std::string_view kRefusalNames[] = {"invalid", "queue_full", "draining"};

nlohmann::ordered_json to_json(const Histogram& histogram) {
  const Histogram::Reading reading = histogram.read();
  return {{"le", reading.bounds}, {"counts", reading.counts}, {"sum", reading.sum}, {"count", reading.count}};
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) { EADEM_CHECK(bounds.size() <= kMaxBounds); }

void Histogram::add(double value_, uint64_t times) {
  if (!(value_ > 0)) value_ = 0;  // also a clock that went wrong
  size_t bucket = 0;
  while (bucket < bounds_.size() && value_ > bounds_[bucket]) ++bucket;
  bump(counts_[bucket], times);
  bump(millionths_, static_cast<uint64_t>(value_ * kMillion + 0.5) * times);
}

Histogram::Reading Histogram::read() const {
  Reading reading;
  reading.bounds.assign(bounds_.begin(), bounds_.end());
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    reading.counts.push_back(value(counts_[i]));
    reading.count += reading.counts.back();
  }
  reading.sum = static_cast<double>(value(millionths_)) / kMillion;
  return reading;
}

Metrics::Metrics()
    : start_(unix_seconds()),
      first_token_(kFirstToken),
      inter_token_(kInterToken),
      request_(kWhole),
      prompt_length_(kTokens),
      answer_length_(kTokens) {}

void Metrics::received(uint64_t prompt_tokens) {
  bump(requests_);
  bump(prompt_tokens_, prompt_tokens);
  prompt_length_.add(static_cast<double>(prompt_tokens));
}

void Metrics::refused(Refusal why) { bump(refused_[static_cast<size_t>(why)]); }

void Metrics::receipt() { bump(receipts_); }

void Metrics::first_token(double seconds) {
  first_token_.add(seconds);
  bump(generation_tokens_);
}

void Metrics::inter_token(double seconds, uint64_t tokens) {
  if (tokens == 0) return;
  inter_token_.add(seconds / static_cast<double>(tokens), tokens);
  bump(generation_tokens_, tokens);
}

void Metrics::finished(FinishReason reason, const AnswerCounts& counts, double seconds) {
  bump(answers_[static_cast<size_t>(reason)]);
  bump(cached_tokens_, counts.cached_tokens);
  request_.add(seconds);
  answer_length_.add(static_cast<double>(counts.completion_tokens));
}

void Metrics::replied(int status) {
  const std::lock_guard lock(mutex_);
  ++status_[status];
}

std::string Metrics::stats_json(const Moment& moment) const {
  const ServiceStats& service = moment.service;
  nlohmann::ordered_json out;
  const double now = unix_seconds();
  out["time"] = now;
  out["uptime"] = now - start_;
  out["version"] = moment.version;
  out["state"] = moment.state;
  out["model"] = moment.model;
  if (moment.engine != nullptr) {
    const ModelInfo& info = moment.engine->info();
    out["numerics"] = info.numerics;
    out["isa"] = info.isa;
    out["threads"] = info.threads;
    out["fingerprint"] = moment.engine->identity();
    out["max_model_len"] = info.max_model_len;
  }
  out["max_num_seqs"] = moment.max_num_seqs;
  out["running"] = service.running;
  out["waiting"] = service.waiting;
  out["kv_blocks"] = service.kv_blocks;
  out["kv_blocks_used"] = service.kv_blocks_used;
  out["prompt_tokens"] = value(prompt_tokens_);
  out["cached_tokens"] = value(cached_tokens_);
  out["generation_tokens"] = value(generation_tokens_);
  out["requests"] = value(requests_);
  for (size_t i = 0; i < kReasons; ++i) {
    out["answers"][std::string(to_string(static_cast<FinishReason>(i)))] = value(answers_[i]);
  }
  for (size_t i = 0; i < kRefusals; ++i) out["refused"][std::string(kRefusalNames[i])] = value(refused_[i]);
  for (const api::NamedCounter& counter : api::kCounters) out["engine"][counter.name] = service.counters.*counter.field;
  out["histograms"] = {{"time_to_first_token", to_json(first_token_)},
                       {"inter_token", to_json(inter_token_)},
                       {"request", to_json(request_)}};
  nlohmann::ordered_json status = nlohmann::ordered_json::object();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [code, count] : status_) status[std::to_string(code)] = count;
  }
  out["http"] = {{"connections", moment.http.open},
                 {"accepted", moment.http.accepted},
                 {"refused", moment.http.refused},
                 {"status", status}};
  out["log"] = {{"dropped", moment.log_dropped}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The names that routers and dashboards for vLLM scrape, beside our own. Both families say the same.
std::string Metrics::prometheus(const Moment& moment) const {
  PrometheusText text(moment.model);
  const ServiceStats& service = moment.service;
  const Counters& c = service.counters;
  const double used =
      service.kv_blocks > 0 ? static_cast<double>(service.kv_blocks_used) / static_cast<double>(service.kv_blocks) : 0;

  text.gauge("eadem_up", "1 once the model is loaded", moment.engine != nullptr ? 1 : 0);
  text.gauge("eadem_start_time_seconds", "start of the server, in seconds since 1970", start_);
  text.gauge("eadem_http_connections", "open connections", static_cast<double>(moment.http.open));
  text.counter("eadem_http_accepted_total", "connections taken", moment.http.accepted);
  text.counter("eadem_http_refused_total", "connections refused at the limit", moment.http.refused);
  text.counter("eadem_log_dropped_total", "lines of the log that could not be written", moment.log_dropped);
  {
    const std::lock_guard lock(mutex_);
    text.head("eadem_http_replies_total", "counter", "HTTP replies by status; 499: the client went first");
    for (const auto& [code, count] : status_) {
      text.sample("eadem_http_replies_total", {{"status", std::to_string(code)}}, count);
    }
  }
  text.head("eadem_requests_refused_total", "counter", "requests that were not accepted");
  for (size_t i = 0; i < kRefusals; ++i) {
    text.sample("eadem_requests_refused_total", {{"reason", std::string(kRefusalNames[i])}}, value(refused_[i]));
  }
  text.counter("eadem_receipts_total", "receipts signed", value(receipts_));
  text.counter("eadem_requests_total", "requests accepted", value(requests_));
  for (const api::NamedCounter& counter : api::kCounters) {
    const bool gauge = std::string_view(counter.name).starts_with("max_");
    const std::string name = std::string("eadem_engine_") + counter.name + (gauge ? "" : "_total");
    text.head(name, gauge ? "gauge" : "counter", "a counter of the engine (docs/serving.md)");
    text.sample(name, {}, c.*counter.field);
  }

  for (const char* const name : {"eadem_requests_running", "vllm:num_requests_running"})
    text.gauge(name, "sequences that run", service.running);
  for (const char* const name : {"eadem_requests_waiting", "vllm:num_requests_waiting"})
    text.gauge(name, "sequences that wait", service.waiting);
  for (const char* const name : {"eadem_kv_usage_ratio", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"})
    text.gauge(name, "part of the KV blocks in use, 0 to 1", used);
  text.gauge("eadem_kv_blocks", "KV blocks in all", service.kv_blocks);
  text.counter("vllm:prefix_cache_queries_total", "prompt tokens looked up in the prefix cache", value(prompt_tokens_));
  text.counter("vllm:prefix_cache_hits_total", "prompt tokens found in the prefix cache", c.prefix_hit_tokens);
  text.counter("vllm:num_preemptions_total", "preemptions", c.preemptions);
  text.counter("vllm:spec_decode_num_drafts_total", "guesses at several tokens that were checked", c.draft_checks);
  text.counter("vllm:spec_decode_num_draft_tokens_total", "tokens guessed and checked", c.drafted_tokens);
  text.counter("vllm:spec_decode_num_accepted_tokens_total", "of them, those that were right", c.accepted_tokens);
  for (const char* const name : {"eadem_prompt_tokens_total", "vllm:prompt_tokens_total"})
    text.counter(name, "prompt tokens of accepted requests", value(prompt_tokens_));
  for (const char* const name : {"eadem_generation_tokens_total", "vllm:generation_tokens_total"})
    text.counter(name, "tokens drawn", value(generation_tokens_));
  render_answers(text);
  return std::move(text).take();
}

void Metrics::render_answers(PrometheusText& text) const {
  for (const char* const name : {"eadem_answers_total", "vllm:request_success_total"}) {
    text.head(name, "counter", "answers by how they ended");
    for (size_t i = 0; i < kReasons; ++i) {
      const std::string reason(to_string(static_cast<FinishReason>(i)));
      text.sample(name, {{"finished_reason", reason}}, value(answers_[i]));
    }
  }
  for (const char* const name : {"eadem_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"})
    text.histogram(name, "from the arrival of a request to the first token of an answer", first_token_);
  for (const char* const name :
       {"eadem_inter_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"})
    text.histogram(name, "from one token of an answer to the next", inter_token_);
  for (const char* const name : {"eadem_request_seconds", "vllm:e2e_request_latency_seconds"})
    text.histogram(name, "from the arrival of a request to the end of an answer", request_);
  for (const char* const name : {"eadem_prompt_length_tokens", "vllm:request_prompt_tokens"})
    text.histogram(name, "prompt tokens of a request", prompt_length_);
  for (const char* const name : {"eadem_answer_length_tokens", "vllm:request_generation_tokens"})
    text.histogram(name, "tokens of an answer", answer_length_);
}

}  // namespace eadem::server
