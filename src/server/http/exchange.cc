#include "server/http/exchange.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/http/connection.h"

namespace eadem::server {

Exchange::Exchange(std::shared_ptr<WireCore> core, std::weak_ptr<Connection> connection)
    : core_(std::move(core)), connection_(std::move(connection)) {}

// One message to the connection however much is said until it listens: tokens that come together go out together.
void Exchange::tell(std::unique_lock<std::mutex>& lock) {
  if (std::exchange(told_, true)) return;
  lock.unlock();
  boost::asio::post(core_->io, [self = shared_from_this()] {
    if (const auto connection = self->connection_.lock()) connection->listen(*self);
  });
}

void Exchange::send(int status, std::string_view content_type, std::string body, Headers headers) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kFresh) return;
  state_ = State::kEnded;
  said_ = {.head = true,
           .status = status,
           .content_type = std::string(content_type),
           .headers = std::move(headers),
           .whole = true,
           .ended = true,
           .bytes = std::move(body)};
  tell(lock);
}

void Exchange::begin(int status, std::string_view content_type, Headers headers) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kFresh) return;
  state_ = State::kStreaming;
  said_.head = true;
  said_.status = status;
  said_.content_type = content_type;
  said_.headers = std::move(headers);
  tell(lock);
}

void Exchange::write(std::string bytes) {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming || bytes.empty()) return;
  if (said_.bytes.empty()) {
    said_.bytes = std::move(bytes);
  } else {
    said_.bytes += bytes;
  }
  tell(lock);
}

void Exchange::end() {
  std::unique_lock lock(mutex_);
  if (state_ != State::kStreaming) return;
  state_ = State::kEnded;
  said_.ended = true;
  tell(lock);
}

void Exchange::drop() {
  std::unique_lock lock(mutex_);
  if (state_ == State::kEnded || state_ == State::kGone) return;
  state_ = State::kEnded;
  said_.ended = said_.dropped = true;
  tell(lock);
}

void Exchange::on_disconnect(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (state_ == State::kGone) {
    lock.unlock();
    callback();
  } else if (state_ != State::kEnded) {
    callback_ = std::move(callback);
  }
}

void Exchange::note(RequestFacts facts) {
  const std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

RequestFacts Exchange::facts() {
  const std::lock_guard lock(mutex_);
  return facts_;
}

Exchange::Said Exchange::take() {
  std::function<void()> callback;  // destroyed outside the lock: it may hold the reply
  const std::lock_guard lock(mutex_);
  told_ = false;
  if (said_.ended) callback.swap(callback_);
  return std::exchange(said_, {});
}

void Exchange::disconnected() {
  std::function<void()> callback;  // called and destroyed outside the lock
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    callback.swap(callback_);
    ended = state_ == State::kEnded || state_ == State::kGone;
    state_ = State::kGone;
  }
  if (callback && !ended) callback();
}

}  // namespace eadem::server
