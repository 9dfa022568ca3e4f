#include "audit/black_box/traffic.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "fetch/http.h"

namespace eadem::audit::black_box {
namespace {

using fetch::CallReply;
using Fault = Sent::Fault;

constexpr double kRound = 0.02;             // seconds that one wait takes at most
constexpr double kBetweenReadings = 0.005;  // seconds
constexpr int kMaxRetries = 6;
constexpr double kMaxRetryAfter = 60.0;  // seconds
constexpr size_t kMaxWhole = size_t{64} << 20;
constexpr size_t kMaxReadings = 1000000;

std::string rounded(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f", std::ceil(seconds));
  return text;
}

}  // namespace

struct Traffic::Flight {
  std::shared_ptr<Sent> sent;
  std::string body;
  AnswerReader reader;
  EventStream events;
  std::string whole, problem;  // problem: of what came, in words
  bool closed = false;         // [DONE] came
  uint64_t call = 0;           // 0: waits for its next try
  Clock::time_point start = Clock::now(), again{};

  // What a round brought. False: it is of no use.
  bool take(std::string_view piece, uint64_t round);
  Result<void> take_event(const std::string& data, uint64_t round);
  void finish();
};

Result<void> Traffic::Flight::take_event(const std::string& data, uint64_t round) {
  if (closed) return Error{"goes on after [DONE]"};
  if (data == "[DONE]") {
    closed = true;
    return {};
  }
  EADEM_ASSIGN_OR_RETURN(const int tokens, reader.add(data));
  if (tokens > 0) sent->marks.push_back({round, tokens});
  return {};
}

bool Traffic::Flight::take(std::string_view piece, uint64_t round) {
  if (!sent->ask.stream()) {
    whole += piece;
    if (whole.size() > kMaxWhole) problem = "is longer than 64 MiB";
  } else {
    const auto taken = events.add(piece, [&](const std::string& data) { return take_event(data, round); });
    if (!taken.ok()) problem = taken.error().message;
  }
  return problem.empty();
}

void Traffic::Flight::finish() {
  if (!sent->ask.stream() && problem.empty()) {
    const auto tokens = reader.add(whole);
    if (!tokens.ok()) problem = tokens.error().message;
  }
  if (sent->ask.stream() && problem.empty() && !closed) problem = "was cut off: its stream has no [DONE]";
  if (!problem.empty()) return;
  auto answer = reader.finish();
  if (answer.ok()) {
    sent->answer = std::move(answer).value();
  } else {
    problem = answer.error().message;
  }
}

Result<std::unique_ptr<Traffic>> Traffic::open(const EndpointOptions& options, std::function<bool()> stop) {
  if (!options.url.starts_with("http://") && !options.url.starts_with("https://"))
    return Error{"--endpoint must be a URL such as http://localhost:8000, not '" + options.url + "'"};
  if (options.url.find_first_of("?#\r\n ") != std::string::npos)
    return Error{"--endpoint must be the URL of a server, without a query: '" + fetch::public_url(options.url) + "'"};
  if (options.api_key.find_first_of("\r\n") != std::string::npos) return Error{"the API key must be one line"};
  EADEM_ASSIGN_OR_RETURN(auto calls, fetch::HttpCalls::create());
  return std::unique_ptr<Traffic>(new Traffic(options, std::move(calls), std::move(stop)));
}

Traffic::Traffic(const EndpointOptions& options, std::unique_ptr<fetch::HttpCalls> calls, std::function<bool()> stop)
    : options_(options), calls_(std::move(calls)), stop_(std::move(stop)) {
  root_ = options.url;
  while (root_.ends_with('/')) root_.pop_back();
  if (root_.ends_with("/v1")) root_.resize(root_.size() - 3);
  base_ = root_ + "/v1";
}

fetch::HttpCall Traffic::call(const std::string& url) const {
  fetch::HttpCall call;
  call.url = url;
  if (!options_.api_key.empty()) call.headers.push_back("Authorization: Bearer " + options_.api_key);
  call.stall_seconds = options_.timeout_seconds;
  call.total_seconds = 10 * options_.timeout_seconds;
  return call;
}

std::shared_ptr<Sent> Traffic::send(Ask ask) {
  auto flight = std::make_shared<Flight>();
  flight->sent = std::make_shared<Sent>();
  flight->body = ask.body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  flight->sent->ask = std::move(ask);
  flight->sent->sent_round = calls_->round();
  flights_.push_back(flight);
  ++requests_;
  start(flight);
  return flight->sent;
}

void Traffic::start(const std::shared_ptr<Flight>& flight) {
  fetch::HttpCall http = call(base_ + flight->sent->ask.path);
  http.body = flight->body;
  flight->call = calls_->add(
      std::move(http), [this, flight](std::string_view piece) { return flight->take(piece, calls_->round()); },
      [this, flight](const CallReply& reply) {
        if (!try_later(*flight, reply)) end(*flight, reply);
      });
}

bool Traffic::try_later(Flight& flight, const CallReply& reply) {
  Sent& sent = *flight.sent;
  const bool busy = reply.status == 429 || (reply.status == 503 && reply.retry_after);
  if (reply.fault != CallReply::Fault::kNone || !busy || sent.retries >= kMaxRetries) return false;
  const double wait = reply.retry_after.value_or(std::ldexp(0.25, sent.retries));
  if (wait > kMaxRetryAfter) return false;
  ++sent.retries;
  ++retries_;
  flight.call = 0;
  flight.again = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait));
  return true;
}

void Traffic::end(Flight& flight, const CallReply& reply) {
  Sent& sent = *flight.sent;
  sent.done = true;
  sent.done_round = calls_->round();
  sent.seconds = std::chrono::duration<double>(Clock::now() - flight.start).count();
  sent.status = reply.status;
  if (reply.ok()) flight.finish();
  if (!reply.ok() && flight.problem.empty()) {
    explain(sent, reply);
  } else if (!flight.problem.empty()) {
    sent.fault = Fault::kBroken;
    sent.message = reply.url + ": the answer " + flight.problem;
  }
  std::erase_if(flights_, [&](const auto& one) { return one.get() == &flight; });
}

void Traffic::explain(Sent& sent, const CallReply& reply) const {
  const std::string told = error_message(reply.error_text);
  const std::string status = " (HTTP " + std::to_string(reply.status) + (told.empty() ? "" : ": " + told) + ")";
  const auto set = [&](Fault fault, const std::string& message) {
    sent.fault = fault;
    sent.message = reply.url + ": " + message;
  };
  switch (reply.fault) {
    case CallReply::Fault::kUnreachable: return set(Fault::kUnreachable, reply.detail);
    case CallReply::Fault::kTimeout:
      return set(Fault::kTimeout, reply.detail + "; is the server hung? --endpoint-timeout allows more");
    case CallReply::Fault::kBroken:
    case CallReply::Fault::kUnwanted: return set(Fault::kBroken, "the answer was cut off: " + reply.detail);
    case CallReply::Fault::kNone: break;
  }
  if (reply.status == 401 || reply.status == 403) {
    const std::string remedy = options_.api_key.empty() ? "give its key (--api-key-file, or EADEM_API_KEY)"
                                                        : "the key that was given is not accepted";
    return set(Fault::kRefused, "access refused" + status + "; " + remedy);
  }
  if (reply.status == 404 || reply.status == 405 || reply.status == 501)
    return set(Fault::kMissing, "not there" + status + "; check the URL and --endpoint-model");
  if (reply.status == 429 || (reply.status == 503 && reply.retry_after)) {
    const std::string wait = reply.retry_after ? ", to come back in " + rounded(*reply.retry_after) + " s" : "";
    return set(Fault::kBusy, "asks to send less" + wait + status + " after " + std::to_string(sent.retries) +
                                 " retries; try later, or lower --max-concurrent");
  }
  if (reply.status >= 500) return set(Fault::kFailed, "the server failed" + status);
  if (reply.status >= 300 && reply.status < 400)
    return set(Fault::kMissing, "moved" + status + (reply.location.empty() ? "" : "; give " + reply.location));
  set(Fault::kRejected, "the request was rejected" + status);
}

void Traffic::leave(Sent& sent) {
  for (const auto& flight : flights_) {
    if (flight->sent.get() != &sent) continue;
    if (flight->call != 0) calls_->cancel(flight->call);
    sent.done = sent.gone = true;
    sent.done_round = calls_->round();
    std::erase(flights_, std::shared_ptr<Flight>(flight));
    return;
  }
}

void Traffic::read_gauge() {
  if (gauge_.empty() || reading_ || flights_.empty() || Clock::now() < next_reading_) return;
  auto text = std::make_shared<std::string>();
  reading_ = true;
  calls_->add(
      call(root_ + "/metrics"),
      [text](std::string_view piece) {
        *text += piece;
        return text->size() <= kMaxWhole;
      },
      [this, text, asked = calls_->round()](const CallReply& reply) {
        reading_ = false;
        next_reading_ =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kBetweenReadings));
        const auto running = reply.ok() ? sample_of(*text, gauge_) : std::nullopt;
        if (running && readings_.size() < kMaxReadings) readings_.push_back({asked, calls_->round(), *running});
      });
}

bool Traffic::run_until(const std::function<bool()>& condition, double seconds) {
  const Clock::time_point begin = Clock::now();
  while (!condition()) {
    if (stop_() || std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
    const std::vector<std::shared_ptr<Flight>> waiting = flights_;
    for (const auto& flight : waiting) {
      if (flight->call == 0 && Clock::now() >= flight->again) start(flight);
    }
    read_gauge();
    calls_->poll(kRound);
  }
  return true;
}

std::shared_ptr<Sent> Traffic::ask_alone(Ask ask) {
  const auto sent = send(std::move(ask));
  run_until([&] { return sent->done; }, 1e9);
  return sent;
}

Page Traffic::get(const std::string& path, bool root) {
  auto page = std::make_shared<Page>();
  auto done = std::make_shared<bool>(false);
  calls_->add(
      call((root ? root_ : base_) + path),
      [page](std::string_view piece) {
        page->text += piece;
        return page->text.size() <= kMaxWhole;
      },
      [page, done](const CallReply& reply) {
        *done = true;
        page->status = reply.status;
        page->unreachable = reply.fault == CallReply::Fault::kUnreachable;
        if (reply.fault != CallReply::Fault::kNone) page->fault = reply.url + ": " + reply.detail;
        if (!reply.error_text.empty()) page->text = reply.error_text;
      });
  run_until([&] { return *done; }, 1e9);
  return *page;
}

void Traffic::settle() {
  if (gauge_.empty()) return;
  const Clock::time_point begin = Clock::now();
  while (!stop_() && std::chrono::duration<double>(Clock::now() - begin).count() < 30.0) {
    const Page page = get("/metrics", true);
    const auto running = page.status == 200 ? sample_of(page.text, gauge_) : std::nullopt;
    if (!running || *running <= 0) return;
    run_until([] { return false; }, 0.01);
  }
}

std::optional<double> sample_of(const std::string& metrics, const std::string& name) {
  std::optional<double> sum;
  for (size_t at = 0; at < metrics.size();) {
    const size_t end = std::min(metrics.find('\n', at), metrics.size());
    const std::string line = metrics.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(name) || line.size() <= name.size()) continue;
    size_t value = name.size();
    if (line[value] == '{') value = std::min(line.rfind('}'), line.size() - 1) + 1;
    if (value >= line.size() || line[value] != ' ') continue;
    const double number = std::strtod(line.c_str() + value, nullptr);
    if (std::isfinite(number)) sum = sum.value_or(0.0) + number;
  }
  return sum;
}

}  // namespace eadem::audit::black_box
