// One connection: reads requests, one at a time, hands them to handlers, and writes what they say. Everything here runs
// on the thread of WireCore::io.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/request_reader.h"
#include "server/http/transport.h"
#include "server/http/wire_core.h"

namespace eadem::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(std::shared_ptr<WireCore> core, std::unique_ptr<Transport> transport, std::string remote);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  // Something was said in the exchange under way.
  void listen(Exchange& exchange);
  // Called now and then: ends what has taken too long.
  void check_time(Clock::time_point now);
  // The server drains: closes now, or after the reply under way.
  void drain();
  // The peer is gone, or must go: ends everything.
  void cut(const std::string& why);

 private:
  enum class Phase : uint8_t {
    kHandshake,
    kIdle,     // between requests
    kHeader,   // of a request has begun
    kBody,     // of a request has begun
    kHandler,  // a request is under way
    kLinger,   // closed for sending: reads on, so that the last reply is not lost with a reset
    kClosed
  };

  boost::asio::awaitable<void> read_loop();
  boost::asio::awaitable<void> write_loop();
  boost::asio::awaitable<void> half_closed();
  boost::asio::awaitable<void> wait_for_room();
  void took(std::string_view bytes);
  // Goes on with what has been read, as far as that is possible now.
  void advance();
  // One step of that; false where there is nothing to do.
  bool read_request();
  void begin_record();
  // After the header: where the request goes, or a reply that refuses it.
  void judge_header();
  void refuse(int status, std::string_view message, std::string_view code, Headers headers = {}, bool close = true);
  void answer_options();
  void dispatch();

  // Puts a whole reply, or a head, into the outbox.
  void reply(int status, std::string_view content_type, std::string_view body, Headers headers);
  void send_head(const Exchange::Said& said);
  void send_bytes(std::string_view bytes);
  void finish(int status, const std::string& fault);
  void add_standard_headers(Headers& headers) const;
  bool cors_allows() const;
  bool authorised() const;

  void flush();
  void enter(Phase phase);
  void settle();  // counts this connection as busy, or no longer
  size_t unsent() const { return outbox_.size() + writing_.size(); }

  const std::shared_ptr<WireCore> core_;
  const std::unique_ptr<Transport> transport_;
  const std::string remote_;

  Phase phase_ = Phase::kHandshake;
  Clock::time_point deadline_ = Clock::time_point::max(), last_progress_{};
  std::string inbox_, outbox_, writing_;
  std::vector<char> read_buffer_;
  bool write_active_ = false, close_when_sent_ = false, busy_ = false, half_closed_ = false, served_ = false;

  // Of the request that is being read or under way.
  std::unique_ptr<RequestReader> reader_;
  std::shared_ptr<const Router> router_;
  Router::Match match_;
  std::shared_ptr<Exchange> exchange_;
  RequestRecord record_;
  Clock::time_point begun_{};
  std::string traceparent_, origin_;
  bool head_only_ = false, http_1_0_ = false, keep_alive_ = false, close_asked_ = false, chunked_ = false,
       head_sent_ = false;
};

}  // namespace eadem::server
