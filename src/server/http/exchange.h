// One request under way: what a handler says through Reply, from any thread, on its way to the connection.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "server/http/http.h"
#include "server/http/wire.h"
#include "server/http/wire_core.h"

namespace eadem::server {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<WireCore> core, std::weak_ptr<Connection> connection);

  // What was said since the last take().
  struct Said {
    bool head = false;  // status, content_type and headers are new
    int status = 0;
    std::string content_type;
    Headers headers;
    bool whole = false;  // `bytes` is the whole body
    bool ended = false;
    bool dropped = false;  // the handler let go of a reply that had not ended
    std::string bytes;
  };

  // Any thread.
  void send(int status, std::string_view content_type, std::string body, Headers headers);
  void begin(int status, std::string_view content_type, Headers headers);
  void write(std::string bytes);
  void end();
  void on_disconnect(std::function<void()> callback);
  void note(RequestFacts facts);
  void drop();

  // The connection's thread.
  Said take();
  void disconnected();
  RequestFacts facts();

 private:
  enum class State : uint8_t { kFresh, kStreaming, kEnded, kGone };

  void tell(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<WireCore> core_;
  const std::weak_ptr<Connection> connection_;
  std::mutex mutex_;
  State state_ = State::kFresh;
  bool told_ = false;  // the connection knows that there is something to take
  Said said_;
  std::function<void()> callback_;
  RequestFacts facts_;
};

// The Reply that handlers hold: letting go of it ends the exchange.
class WireReply final : public Reply {
 public:
  explicit WireReply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~WireReply() override { exchange_->drop(); }

  void send(int status, std::string_view content_type, std::string body, Headers headers) override {
    exchange_->send(status, content_type, std::move(body), std::move(headers));
  }
  void begin_stream(int status, std::string_view content_type, Headers headers) override {
    exchange_->begin(status, content_type, std::move(headers));
  }
  void write(std::string bytes) override { exchange_->write(std::move(bytes)); }
  void end() override { exchange_->end(); }
  void on_disconnect(std::function<void()> callback) override { exchange_->on_disconnect(std::move(callback)); }
  void note(RequestFacts facts) override { exchange_->note(std::move(facts)); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace eadem::server
