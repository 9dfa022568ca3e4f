// The API's handlers over a real Service and a tiny model, without a network: ask(path, body) gives what a client would
// get.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "eadem/service.h"
#include "server/metrics.h"
#include "server/openai/routes.h"
#include "support/tiny_llama.h"
#include "support/tiny_text.h"

namespace eadem::server {

using nlohmann::ordered_json;

// Keeps what a handler sends.
class FakeReply final : public Reply {
 public:
  void send(int status, std::string_view content_type, std::string body, Headers headers = {}) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_ || streaming_);
    status_ = status, type_ = content_type, body_ = std::move(body), headers_ = std::move(headers), ended_ = true;
    changed_.notify_all();
  }
  void begin_stream(int status, std::string_view content_type, Headers headers = {}) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_ || streaming_);
    status_ = status, type_ = content_type, headers_ = std::move(headers), streaming_ = true;
    changed_.notify_all();
  }
  void write(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streaming_ && !ended_);
    body_ += bytes;
    ++writes_;
    changed_.notify_all();
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streaming_ && !ended_);
    ended_ = true;
    changed_.notify_all();
  }
  void on_disconnect(std::function<void()> callback) override {
    const std::lock_guard lock(mutex_);
    disconnect_ = std::move(callback);
  }
  void note(RequestFacts facts) override {
    const std::lock_guard lock(mutex_);
    facts_ = std::move(facts);
    changed_.notify_all();
  }

  // Waits for the end; false after some minutes.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ended_; });
  }
  bool wait_for_writes(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return writes_ >= count || ended_; });
  }
  void disconnect() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      callback = disconnect_;
    }
    if (callback) callback();
  }
  int status() const { return status_; }
  const std::string& body() const { return body_; }
  const std::string& type() const { return type_; }
  const Headers& headers() const { return headers_; }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  RequestFacts facts() {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  static constexpr auto kPatience = std::chrono::minutes(3);

  std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0, writes_ = 0;
  std::string type_, body_;
  Headers headers_;
  bool streaming_ = false, ended_ = false;
  std::function<void()> disconnect_;
  RequestFacts facts_;
};

struct Answer {
  int status = 0;
  ordered_json body;
};

class Api {
 public:
  explicit Api(ServiceOptions options = {}, bool text = true, OpenaiOptions given = {}) {
    testing::write_tiny_llama(folder_.path());
    if (text) testing::write_tiny_text(folder_.path());
    options.engine.model = folder_.path().string();
    options.engine.threads = 1;
    auto opened = Service::open(options);
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    service = std::move(opened).value();
    given.service = service.get(), given.metrics = &metrics;
    given.model_names = {"tiny", "also-tiny"}, given.version = "1.2.3";
    routes_ = openai_routes(given);
  }
  ~Api() { routes_.clear(); }

  // target: a path, with at most one field of a query.
  std::shared_ptr<FakeReply> start(const std::string& method, const std::string& target, const std::string& body) {
    const auto reply = std::make_shared<FakeReply>();
    HttpRequest request;
    const std::string path = target.substr(0, target.find('?'));
    if (const size_t mark = target.find('?'), equals = target.find('='); mark != std::string::npos) {
      request.query[target.substr(mark + 1, equals - mark - 1)] = target.substr(equals + 1);
    }
    request.method = method, request.path = path, request.body = body, request.request_id = "r1";
    for (const Route& route : routes_) {
      const size_t brace = route.path.find("{name}");
      const bool tail =
          brace != std::string::npos && path.size() > brace && path.starts_with(route.path.substr(0, brace));
      if (route.method != method || (route.path != path && !tail)) continue;
      if (tail) request.tail = path.substr(brace);
      route.handler(request, reply);
      return reply;
    }
    ADD_FAILURE() << "no route for " << method << " " << path;
    return reply;
  }

  Answer get(const std::string& path) { return finish(start("GET", path, "")); }
  Answer post(const std::string& path, const ordered_json& body) { return post_text(path, body.dump()); }
  Answer post_text(const std::string& path, const std::string& body) { return finish(start("POST", path, body)); }

  // The objects of a stream that ends with [DONE].
  std::vector<ordered_json> stream(const std::string& path, ordered_json body) {
    body["stream"] = true;
    const auto reply = start("POST", path, body.dump());
    EXPECT_TRUE(reply->wait());
    EXPECT_EQ(reply->status(), 200) << reply->body();
    return events(reply->body());
  }

  static std::vector<ordered_json> events(const std::string& text) {
    std::vector<ordered_json> objects;
    bool done = false;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find("\n\n", at);
      EXPECT_NE(end, std::string::npos);
      const std::string line = text.substr(at, end - at);
      EXPECT_TRUE(line.starts_with("data: ") && !done) << line;
      if (line == "data: [DONE]") {
        done = true;
      } else {
        objects.push_back(ordered_json::parse(line.substr(6)));
      }
      at = end + 2;
    }
    EXPECT_TRUE(done || (!objects.empty() && objects.back().contains("error"))) << text;
    return objects;
  }

  std::unique_ptr<Service> service;
  Metrics metrics;

 private:
  static Answer finish(const std::shared_ptr<FakeReply>& reply) {
    if (!reply->wait()) {
      ADD_FAILURE() << "no reply";
      return {};
    }
    return {reply->status(), ordered_json::parse(reply->body(), nullptr, false)};
  }

  test::TempDirectory folder_;
  std::vector<Route> routes_;
};

// One for a whole suite, since opening takes time.
class ApiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { api_ = new Api; }
  static void TearDownTestSuite() {
    delete api_;
    api_ = nullptr;
  }
  static Api& api() { return *api_; }
  static inline Api* api_ = nullptr;
};

}  // namespace eadem::server
