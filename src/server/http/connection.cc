#include "server/http/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <algorithm>
#include <utility>

#include "server/http/response.h"
#include "server/http/target.h"

namespace eadem::server {
namespace {

namespace asio = boost::asio;

constexpr size_t kIdleBuffer = size_t{2} << 10, kBusyBuffer = size_t{64} << 10;
constexpr size_t kMaxPipelined = size_t{64} << 10;      // bytes read ahead while a request is under way
constexpr size_t kMaxUnsentForNext = size_t{64} << 10;  // no new request before the replies are out but for this much
constexpr auto kLingerTime = std::chrono::seconds(2), kHandshakeTime = std::chrono::seconds(10);
constexpr auto kGoneCheck = std::chrono::milliseconds(50);
constexpr int kClientGone = 499;

// What a connection that fell idle gives back.
void release(std::string& text) {
  if (text.capacity() > kIdleBuffer) std::string(text).swap(text);
}

}  // namespace

Connection::Connection(std::shared_ptr<WireCore> core, std::unique_ptr<Transport> transport, std::string remote)
    : core_(std::move(core)), transport_(std::move(transport)), remote_(std::move(remote)) {
  ++core_->open;
}

Connection::~Connection() {
  if (busy_) --core_->busy;
  --core_->open;
}

void Connection::start() {
  core_->connections[this] = weak_from_this();
  enter(Phase::kHandshake);
  asio::co_spawn(core_->io, read_loop(), [self = shared_from_this()](const std::exception_ptr& fault) {
    self->cut(fault ? "an internal error" : "");
    self->core_->connections.erase(self.get());
  });
}

// Every phase but a handler's has a deadline; a handler's own is the request's.
void Connection::enter(Phase phase) {
  phase_ = phase;
  const WireOptions& options = core_->options;
  const Clock::time_point now = Clock::now();
  switch (phase) {
    case Phase::kHandshake: deadline_ = now + kHandshakeTime; break;
    case Phase::kIdle: deadline_ = now + options.idle_timeout; break;
    case Phase::kHeader: deadline_ = now + options.header_timeout; break;
    case Phase::kBody: deadline_ = now + options.body_timeout; break;
    case Phase::kLinger: deadline_ = now + kLingerTime; break;
    case Phase::kHandler:
    case Phase::kClosed: deadline_ = Clock::time_point::max(); break;
  }
  settle();
}

void Connection::settle() {
  const bool request = phase_ == Phase::kHeader || phase_ == Phase::kBody || phase_ == Phase::kHandler;
  const bool now = phase_ != Phase::kClosed && (request || unsent() > 0);
  if (now != busy_) core_->busy += now ? 1 : -1;
  busy_ = now;
}

// A read is always under way, also while a handler computes: that is how a client that goes is noticed at once.
asio::awaitable<void> Connection::read_loop() {
  const auto self = shared_from_this();
  error_code fault;
  co_await transport_->handshake(fault);
  if (fault || phase_ == Phase::kClosed) co_return;
  enter(Phase::kIdle);
  while (phase_ != Phase::kClosed) {
    if ((phase_ == Phase::kHandler || unsent() > kMaxUnsentForNext) && inbox_.size() >= kMaxPipelined) {
      co_await wait_for_room();
      continue;
    }
    const size_t size = phase_ == Phase::kBody || phase_ == Phase::kLinger ? kBusyBuffer : kIdleBuffer;
    if (read_buffer_.size() != size) std::vector<char>(size).swap(read_buffer_);
    const asio::mutable_buffer buffer(read_buffer_.data(), read_buffer_.size());
    const size_t got = co_await transport_->read_some(buffer, fault);
    if (phase_ == Phase::kClosed) co_return;
    if (fault) {
      if (fault == asio::error::eof) co_await half_closed();
      co_return;
    }
    took({read_buffer_.data(), got});
  }
}

// A client that has sent all it has to say may wait for the replies to it. The end of its stream looks the same where
// it has gone for good: who said nothing of closing, or speaks HTTP/1.0 (as proxies do), is taken to have gone.
asio::awaitable<void> Connection::half_closed() {
  if (exchange_ != nullptr && (!close_asked_ || http_1_0_)) co_return;
  half_closed_ = true;
  close_when_sent_ = true;
  while (phase_ == Phase::kHandler) co_await wait_for_room();
  if (phase_ == Phase::kClosed || phase_ == Phase::kHeader || phase_ == Phase::kBody) co_return;
  enter(Phase::kLinger);
  while (phase_ != Phase::kClosed && unsent() > 0) co_await wait_for_room();
}

// With the inbox full nothing is read, and the system is asked whether the peer is still there.
asio::awaitable<void> Connection::wait_for_room() {
  error_code ignored;
  asio::steady_timer timer(core_->io, kGoneCheck);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (phase_ == Phase::kHandler && transport_->peer_gone(half_closed_)) cut("");
}

void Connection::took(std::string_view bytes) {
  if (phase_ == Phase::kLinger || close_when_sent_) return;  // of a request that nobody wants
  inbox_.append(bytes);
  advance();
}

void Connection::advance() {
  while (phase_ != Phase::kClosed && phase_ != Phase::kLinger && exchange_ == nullptr && !close_when_sent_ &&
         unsent() <= kMaxUnsentForNext && read_request()) {
  }
  release(inbox_);
  flush();
}

bool Connection::read_request() {
  if (reader_ == nullptr) {
    // Empty lines between requests are old clients' (RFC 9112, 2.2).
    const size_t begin = std::min(inbox_.find_first_not_of("\r\n"), inbox_.size());
    inbox_.erase(0, begin);
    if (inbox_.empty()) {
      if (phase_ != Phase::kIdle && phase_ != Phase::kHandshake) enter(Phase::kIdle);
      return false;
    }
    reader_ = std::make_unique<RequestReader>(core_->options.limits);
    enter(Phase::kHeader);
  }
  const RequestReader::State before = reader_->state();
  inbox_.erase(0, reader_->feed(inbox_));
  const RequestReader::State after = reader_->state();
  if (before == RequestReader::State::kHeader && after != before) begin_record();
  if (after == RequestReader::State::kFailed) {
    refuse(reader_->fault_status(), reader_->fault(), "");
    return false;
  }
  if (before == RequestReader::State::kHeader && after != before) {
    if (after == RequestReader::State::kBody) enter(Phase::kBody);
    judge_header();
    return true;
  }
  if (after != RequestReader::State::kDone) return false;
  dispatch();
  return true;
}

void Connection::begin_record() {
  HttpRequest& request = reader_->request();
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string() : found->second;
  };
  Trace trace = continue_trace(header("traceparent"));
  request.remote = remote_;
  request.request_id = request_id(header("x-request-id"));
  request.trace_id = trace.trace_id;
  traceparent_ = std::move(trace.parent);
  origin_ = header("origin");
  head_only_ = reader_->head_only();
  http_1_0_ = reader_->http_1_0();
  keep_alive_ = reader_->keep_alive();
  close_asked_ = !keep_alive_;
  begun_ = Clock::now();
  record_ = {.time = std::chrono::system_clock::now(),
             .request_id = request.request_id,
             .trace_id = request.trace_id,
             .remote = remote_,
             .method = head_only_ ? "HEAD" : request.method,
             .path = request.path};
}

void Connection::judge_header() {
  HttpRequest& request = reader_->request();
  const std::string& root = core_->options.root_path;
  if (!root.empty() && request.path.starts_with(root + "/")) request.path.erase(0, root.size());
  router_ = core_->router();
  match_ = router_ == nullptr ? Router::Match{} : router_->find(request.method, request.path);
  // Without a body nothing stands between this request and the next, and the connection can go on.
  const bool close = reader_->state() != RequestReader::State::kDone;
  if (core_->starting && match_.route == nullptr) {
    refuse(503, "the server is starting", "", {{"Retry-After", "1"}}, close);
  } else if (core_->draining && (match_.route == nullptr || !match_.route->open)) {
    refuse(503, "the server is shutting down", "", {{"Retry-After", "1"}});
  } else if (request.method == "OPTIONS" && (match_.route == nullptr || !origin_.empty())) {
    answer_options();
  } else if (match_.methods.empty()) {
    refuse(404, "there is nothing at " + request.path, "", {}, close);
  } else if (match_.route == nullptr) {
    std::string allowed = "OPTIONS";
    for (const std::string& method : match_.methods) allowed += ", " + method + (method == "GET" ? ", HEAD" : "");
    refuse(405, "the method " + record_.method + " is not allowed at " + request.path, "", {{"Allow", allowed}}, close);
  } else if (!match_.route->open && !authorised()) {
    refuse(401, "the API key is missing or wrong: send it as `Authorization: Bearer KEY`", "invalid_api_key",
           {{"WWW-Authenticate", "Bearer"}}, close);
  } else if (const auto coding = request.headers.find("content-encoding");
             coding != request.headers.end() && coding->second != "identity") {
    refuse(415, "the body must come without Content-Encoding", "", {}, close);
  } else if (reader_->state() == RequestReader::State::kDone) {
    dispatch();
  } else if (reader_->expects_continue() && inbox_.empty()) {
    outbox_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
}

void Connection::dispatch() {
  HttpRequest request = std::move(reader_->request());
  reader_.reset();
  request.tail = std::move(match_.tail);
  request.arrival = Clock::now();
  record_.bytes_in = request.body.size();
  if (core_->options.keep_bodies) record_.body = request.body;
  exchange_ = std::make_shared<Exchange>(core_, weak_from_this());
  head_sent_ = false;
  enter(Phase::kHandler);
  auto reply_to = std::make_shared<WireReply>(exchange_);
  asio::post(core_->workers, [router = router_, route = match_.route, request = std::move(request),
                              reply_to = std::move(reply_to)]() mutable {
    try {
      route->handler(request, reply_to);
    } catch (const std::exception& fault) {
      reply_to->send(500, "application/json",
                     error_body(std::string("an internal error: ") + fault.what(), "server_error", ""), {});
    }
  });
}

void Connection::listen(Exchange& exchange) {
  if (&exchange != exchange_.get() || phase_ == Phase::kClosed) return;
  Exchange::Said said = exchange.take();
  if (said.dropped && !head_sent_ && !said.head) {
    keep_alive_ = false;
    said.head = said.whole = true;
    said.status = 500;
    said.content_type = "application/json";
    said.bytes = error_body("the request was given up", "server_error", "");
  } else if (said.dropped) {
    finish(500, "the handler gave the reply up");
    cut("");
    return;
  }
  if (said.head) send_head(said);
  send_bytes(said.bytes);
  if (said.ended) {
    if (chunked_) outbox_ += "0\r\n\r\n";
    finish(record_.status, "");
    advance();
    return;
  }
  if (unsent() > core_->options.max_unsent) {
    cut("the client does not read what it asked for");
    return;
  }
  flush();
}

void Connection::send_head(const Exchange::Said& said) {
  const bool bodiless = said.status == 204 || said.status == 304;
  ResponseHead head{.status = said.status, .content_type = said.content_type, .http_1_0 = http_1_0_};
  if (said.whole && !bodiless) head.content_length = said.bytes.size();
  chunked_ = !said.whole && !bodiless && !http_1_0_;
  head.chunked = chunked_;
  if (core_->draining || (!said.whole && http_1_0_)) keep_alive_ = false;
  head.keep_alive = keep_alive_;
  chunked_ = chunked_ && !head_only_;
  head_only_ = head_only_ || bodiless;
  Headers headers = said.headers;
  add_standard_headers(headers);
  outbox_ += render_head(head, headers);
  record_.status = said.status;
  head_sent_ = true;
}

void Connection::send_bytes(std::string_view bytes) {
  if (bytes.empty() || head_only_) return;
  record_.bytes_out += bytes.size();
  if (chunked_) {
    append_chunk(outbox_, bytes);
  } else {
    outbox_.append(bytes);
  }
}

// The wire's own replies: short, and never for a request that a handler has.
void Connection::reply(int status, std::string_view content_type, std::string_view body, Headers headers) {
  const ResponseHead head{.status = status,
                          .content_type = content_type,
                          .content_length = body.size(),
                          .http_1_0 = http_1_0_,
                          .keep_alive = keep_alive_};
  add_standard_headers(headers);
  outbox_ += render_head(head, headers);
  if (!head_only_) outbox_ += body;
  record_.bytes_out += head_only_ ? 0 : body.size();
}

void Connection::refuse(int status, std::string_view message, std::string_view code, Headers headers, bool close) {
  if (record_.request_id.empty()) {  // its header was never whole
    begun_ = Clock::now();
    record_.time = std::chrono::system_clock::now();
    record_.request_id = request_id("");
    record_.remote = remote_;
    origin_.clear();
    traceparent_.clear();
    head_only_ = http_1_0_ = false;
  }
  if (close || core_->draining) keep_alive_ = false;
  reply(status, "application/json", error_body(message, error_type(status), code), std::move(headers));
  finish(status, std::string(message));
}

void Connection::answer_options() {
  Headers headers;
  std::string allowed = "OPTIONS";
  for (const std::string& method : match_.methods) allowed += ", " + method + (method == "GET" ? ", HEAD" : "");
  const HttpRequest& request = reader_->request();
  const auto wanted = [&](const char* name, const std::vector<std::string>& list) {
    std::string joined;
    for (const std::string& item : list) joined += (joined.empty() ? "" : ", ") + item;
    const auto asked = request.headers.find(name);
    return joined == "*" && asked != request.headers.end() ? asked->second : joined;
  };
  const bool preflight = !origin_.empty() && request.headers.contains("access-control-request-method");
  if (preflight && cors_allows()) {
    headers = {{"Access-Control-Allow-Methods", wanted("access-control-request-method", core_->options.cors.methods)},
               {"Access-Control-Allow-Headers", wanted("access-control-request-headers", core_->options.cors.headers)},
               {"Access-Control-Max-Age", "600"}};
  } else {
    headers = {{"Allow", allowed}};
  }
  if (reader_->state() != RequestReader::State::kDone || core_->draining) keep_alive_ = false;
  reply(200, "", "", std::move(headers));
  finish(200, "");
}

void Connection::finish(int status, const std::string& fault) {
  record_.status = status;
  record_.fault = fault;
  record_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  if (exchange_ != nullptr) record_.facts = exchange_->facts();
  if (core_->options.on_finished) core_->options.on_finished(record_);
  record_ = {};
  served_ = true;
  exchange_.reset();
  reader_.reset();
  match_ = {};
  router_.reset();
  if (!keep_alive_) close_when_sent_ = true;
  if (phase_ != Phase::kClosed && phase_ != Phase::kLinger) enter(Phase::kIdle);
}

void Connection::flush() {
  settle();
  if (write_active_ || phase_ == Phase::kClosed) return;
  if (outbox_.empty()) {
    if (close_when_sent_ && phase_ != Phase::kLinger) {
      transport_->shutdown_send();
      enter(Phase::kLinger);
    }
    return;
  }
  write_active_ = true;
  last_progress_ = Clock::now();
  asio::co_spawn(core_->io, write_loop(), [self = shared_from_this()](const std::exception_ptr& fault) {
    if (fault) self->cut("an internal error");
  });
}

// What is said while a write is under way goes out together in the next.
asio::awaitable<void> Connection::write_loop() {
  const auto self = shared_from_this();
  while (!outbox_.empty() && phase_ != Phase::kClosed) {
    writing_.swap(outbox_);
    outbox_.clear();
    for (size_t sent = 0; sent < writing_.size();) {
      error_code fault;
      const asio::const_buffer rest(writing_.data() + sent, writing_.size() - sent);
      sent += co_await transport_->write_some(rest, fault);
      last_progress_ = Clock::now();
      if (phase_ == Phase::kClosed) co_return;
      if (fault) {
        cut("");
        co_return;
      }
    }
    writing_.clear();
    release(writing_);
  }
  write_active_ = false;
  release(outbox_);
  advance();
}

void Connection::check_time(Clock::time_point now) {
  if (phase_ == Phase::kClosed) return;
  if (write_active_ && now - last_progress_ > core_->options.write_timeout) {
    cut("the client does not read what it asked for");
    return;
  }
  if (now < deadline_) return;
  if (phase_ == Phase::kIdle && unsent() > 0) {  // a long reply to a slow reader
    deadline_ = now + core_->options.idle_timeout;
  } else if (phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    refuse(408, "the request did not come in whole in time", "");
    flush();
  } else {
    cut("");
  }
}

void Connection::drain() {
  error_code ignored;
  if (phase_ == Phase::kIdle && unsent() == 0) {
    // A new connection, or one with a request on its way, gets an answer: 503, or what an open route says.
    if (served_ && transport_->socket().available(ignored) == 0) cut("");
  } else if (phase_ == Phase::kHandler) {
    keep_alive_ = false;
  } else if (phase_ == Phase::kIdle) {
    close_when_sent_ = true;
  }
}

void Connection::cut(const std::string& why) {
  if (phase_ == Phase::kClosed) return;
  if (exchange_ != nullptr) {
    exchange_->disconnected();
    finish(kClientGone, why);
  }
  enter(Phase::kClosed);
  reader_.reset();
  transport_->close();
}

}  // namespace eadem::server
