// A socket that says exactly what a test wants, however wrong, and a wire on a free port with handlers of the test's
// own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/wire.h"

namespace eadem::test {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

inline bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds limit = 60s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    EXPECT_TRUE(connected_);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  // With a reset instead of the end of the stream.
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // What comes until `end` is in it, the server closes, or a minute has gone.
  std::string read(std::string_view end) {
    return read_while([&](const std::string& all) { return all.find(end) == std::string::npos; });
  }
  std::string read_to_end() {
    return read_while([](const std::string&) { return true; });
  }
  bool at_end() const { return ended_; }

  // One reply: its head, and a body as long as Content-Length says.
  std::string reply() {
    return read_while([](const std::string& all) {
      const size_t head = all.find("\r\n\r\n");
      if (head == std::string::npos) return true;
      const size_t field = all.find("Content-Length: ");
      const size_t size = field < head ? std::stoul(all.substr(field + 16, 20)) : 0;
      return all.size() < head + 4 + size;
    });
  }
  std::string ask(std::string_view bytes) {
    send(bytes);
    return reply();
  }

 private:
  std::string read_while(const std::function<bool(const std::string&)>& more) {
    std::string all;
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (more(all)) {
      pollfd ready{socket_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > end) break;
      if (::poll(&ready, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
      ended_ = got <= 0;
      if (ended_) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

  int socket_;
  bool connected_ = false, ended_ = false;
};

// Routes that tests need: /echo gives the body back; /whole waits for release(), /stream too, after its first event.
class WireFixture : public ::testing::Test {
 protected:
  void open(server::WireOptions options = {}) {
    options.port = 0;
    options.on_finished = [this](const server::RequestRecord& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
    };
    auto opened = server::Wire::open(std::move(options));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    wire_ = std::move(opened).value();
    wire_->set_routes(routes());
  }
  void TearDown() override {
    release();
    wire_.reset();
  }

  std::vector<server::Route> routes() {
    using server::HttpRequest;
    using Shared = std::shared_ptr<server::Reply>;
    return {
        {"POST", "/echo", [](const HttpRequest& r, const Shared& reply) { reply->send(200, "text/plain", r.body); }},
        {"GET", "/hello",
         [](const HttpRequest& r, const Shared& reply) {
           reply->send(200, "text/plain", "hello " + (r.query.contains("name") ? r.query.at("name") : "") + "\n");
         }},
        {"GET", "/open", [](const HttpRequest&, const Shared& reply) { reply->send(200, "text/plain", "open"); }, true},
        {"GET", "/models/{name}",
         [](const HttpRequest& r, const Shared& reply) { reply->send(200, "text/plain", r.tail); }},
        {"GET", "/throw", [](const HttpRequest&, const Shared&) { throw std::runtime_error("oh"); }},
        {"GET", "/forget", [](const HttpRequest&, const Shared&) {}},
        {"POST", "/whole", [this](const HttpRequest&, Shared reply) { hold(std::move(reply)); }},
        {"GET", "/three",
         [](const HttpRequest&, const Shared& reply) {
           reply->begin_stream(200, "text/event-stream");
           for (const char* const event : {"data: 1\n\n", "data: 2\n\n", "data: [DONE]\n\n"}) reply->write(event);
           reply->end();
         }},
        {"POST", "/stream", [this](const HttpRequest&, Shared reply) {
           reply->begin_stream(200, "text/event-stream");
           reply->write("data: begin\n\n");
           hold(std::move(reply));
         }}};
  }

  // Handlers' replies that wait for the test.
  void hold(std::shared_ptr<server::Reply> reply) {
    reply->on_disconnect([this] {
      gone_at_ = std::chrono::steady_clock::now();
      ++gone_;
    });
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(reply));
    ++holding_;
  }
  std::shared_ptr<server::Reply> held(size_t index = 0) {
    EXPECT_TRUE(wait_until([&] { return holding_ > static_cast<int>(index); }));
    const std::lock_guard lock(mutex_);
    return held_.at(index);
  }
  void release() {
    std::vector<std::shared_ptr<server::Reply>> replies;
    {
      const std::lock_guard lock(mutex_);
      replies.swap(held_);
    }
    for (const auto& reply : replies) reply->send(200, "text/plain", "late");
  }
  std::vector<server::RequestRecord> records(size_t at_least) {
    EXPECT_TRUE(wait_until([&] {
      const std::lock_guard lock(mutex_);
      return records_.size() >= at_least;
    }));
    const std::lock_guard lock(mutex_);
    return records_;
  }
  int port() const { return wire_->port(); }

  std::unique_ptr<server::Wire> wire_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<server::Reply>> held_;
  std::vector<server::RequestRecord> records_;
  std::atomic<int> holding_{0}, gone_{0};
  std::atomic<std::chrono::steady_clock::time_point> gone_at_{};
};

inline int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.") && reply.size() > 12 ? std::stoi(reply.substr(9, 3)) : 0;
}
inline std::string body_of(const std::string& reply) {
  const size_t head = reply.find("\r\n\r\n");
  return head == std::string::npos ? "" : reply.substr(head + 4);
}
inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace eadem::test
