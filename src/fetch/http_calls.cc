#include "fetch/http_calls.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "fetch/curl_options.h"
#include "fetch/http.h"

namespace eadem::fetch {
namespace {

using Clock = std::chrono::steady_clock;
using Fault = CallReply::Fault;

constexpr size_t kMaxErrorText = size_t{64} << 10;
constexpr long kReceiveBuffer = 512L << 10;  // what waits in the kernel is read in one round

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Call {
  HttpCall call;
  HttpCalls::PieceFn piece;
  HttpCalls::DoneFn done;
  CallReply reply;
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> detail{};
  Clock::time_point start = Clock::now(), last = start;

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
  }
};

// libcurl calls these from C: exceptions must not pass through them.
size_t on_header(char* data, size_t, size_t size, void* user) noexcept {
  Call& call = *static_cast<Call*>(user);
  call.last = Clock::now();
  const std::string_view line(data, size);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  const std::string name = lower(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
  if (name == "content-type") call.reply.content_type = lower(value);
  if (name == "location") call.reply.location = public_url(value);
  if (name == "retry-after") {
    char* end = nullptr;
    const double seconds = std::strtod(value.c_str(), &end);
    if (end != value.c_str() && *end == 0 && std::isfinite(seconds) && seconds >= 0) call.reply.retry_after = seconds;
  }
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) noexcept {
  Call& call = *static_cast<Call*>(user);
  call.last = Clock::now();
  curl_easy_getinfo(call.curl, CURLINFO_RESPONSE_CODE, &call.reply.status);
  if (call.reply.status < 200 || call.reply.status >= 300) {
    const size_t room = kMaxErrorText - std::min(kMaxErrorText, call.reply.error_text.size());
    call.reply.error_text.append(data, std::min(size, room));
    return size;
  }
  if (call.piece(std::string_view(data, size))) return size;
  call.reply.fault = Fault::kUnwanted;
  return CURL_WRITEFUNC_ERROR;
}

Fault kind_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT: return Fault::kTimeout;
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_UNSUPPORTED_PROTOCOL: return Fault::kBroken;  // HTTP/0.9, for one
    default: return Fault::kUnreachable;
  }
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", seconds);
  return text;
}

void set_options(Call& call) {
  for (const std::string& header : call.call.headers) call.headers = curl_slist_append(call.headers, header.c_str());
  if (call.call.body) {
    call.headers = curl_slist_append(call.headers, "Content-Type: application/json");
    call.headers = curl_slist_append(call.headers, "Expect:");  // no 100 Continue: many small servers know none
  }
  CURL* const curl = call.curl;
  set_common_options(curl, call.call.url, call.headers);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, std::lround(call.call.connect_seconds * 1e3));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  if (call.call.body) {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.call.body->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call.call.body->data());
  }
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, call.detail.data());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &call);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &call);
}

}  // namespace

struct HttpCalls::State {
  CURLM* multi = nullptr;
  std::map<uint64_t, std::unique_ptr<Call>> calls;
  uint64_t next = 1, round = 0;

  ~State() {
    for (auto& [number, call] : calls) curl_multi_remove_handle(multi, call->curl);
    calls.clear();
    curl_multi_cleanup(multi);
  }

  std::unique_ptr<Call> take(uint64_t number) {
    const auto found = calls.find(number);
    if (found == calls.end()) return nullptr;
    std::unique_ptr<Call> call = std::move(found->second);
    calls.erase(found);
    curl_multi_remove_handle(multi, call->curl);
    return call;
  }

  void finish_ended();
  void finish_late();
};

void HttpCalls::State::finish_ended() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    const auto found = std::find_if(calls.begin(), calls.end(),
                                    [&](const auto& entry) { return entry.second->curl == message->easy_handle; });
    if (found == calls.end()) continue;
    const std::unique_ptr<Call> call = take(found->first);
    curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &call->reply.status);
    if (code != CURLE_OK && call->reply.fault == Fault::kNone) {
      call->reply.fault = kind_of(code);
      call->reply.detail = curl_fault(code, call->detail.data());
    }
    call->done(call->reply);
  }
}

void HttpCalls::State::finish_late() {
  std::vector<std::pair<uint64_t, std::string>> late;
  for (const auto& [number, call] : calls) {
    if (since(call->last) > call->call.stall_seconds)
      late.emplace_back(number, "nothing came for " + seconds_text(call->call.stall_seconds));
    else if (since(call->start) > call->call.total_seconds)
      late.emplace_back(number, "not done after " + seconds_text(call->call.total_seconds));
  }
  for (const auto& [number, why] : late) {
    const std::unique_ptr<Call> call = take(number);
    if (!call) continue;
    call->reply.fault = Fault::kTimeout;
    call->reply.detail = why;
    call->done(call->reply);
  }
}

HttpCalls::HttpCalls(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpCalls::~HttpCalls() = default;

Result<std::unique_ptr<HttpCalls>> HttpCalls::create() {
  auto state = std::make_unique<State>();
  state->multi = curl_ready() ? curl_multi_init() : nullptr;
  if (state->multi == nullptr) return Error{"libcurl could not be initialised"};
  return std::unique_ptr<HttpCalls>(new HttpCalls(std::move(state)));
}

uint64_t HttpCalls::add(HttpCall call, PieceFn piece, DoneFn done) {
  auto entry = std::make_unique<Call>();
  entry->call = std::move(call);
  entry->piece = std::move(piece);
  entry->done = std::move(done);
  entry->reply.url = public_url(entry->call.url);
  entry->curl = curl_easy_init();
  EADEM_CHECK(entry->curl != nullptr);
  set_options(*entry);
  curl_multi_add_handle(state_->multi, entry->curl);
  const uint64_t number = state_->next++;
  state_->calls.emplace(number, std::move(entry));
  return number;
}

void HttpCalls::cancel(uint64_t number) { state_->take(number); }

void HttpCalls::poll(double seconds) {
  ++state_->round;
  int running = 0;
  curl_multi_perform(state_->multi, &running);
  if (static_cast<size_t>(running) == state_->calls.size() && seconds > 0) {  // else one has just ended
    curl_multi_poll(state_->multi, nullptr, 0, static_cast<int>(std::ceil(seconds * 1e3)), nullptr);
    curl_multi_perform(state_->multi, &running);
  }
  state_->finish_ended();
  state_->finish_late();
}

uint64_t HttpCalls::round() const { return state_->round; }
size_t HttpCalls::running() const { return state_->calls.size(); }

}  // namespace eadem::fetch
