// The page in the program: every file is there byte for byte, and is served with its tag and the policy.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "server/page.h"

namespace eadem::server {
namespace {

// Remembers the one reply.
class Recorder : public Reply {
 public:
  void send(int status, std::string_view content_type, std::string body, Headers headers) override {
    ++calls;
    status_ = status;
    content_type_ = content_type;
    body_ = std::move(body);
    headers_ = std::move(headers);
  }
  void begin_stream(int, std::string_view, Headers) override { ADD_FAILURE(); }
  void write(std::string) override { ADD_FAILURE(); }
  void end() override { ADD_FAILURE(); }
  void on_disconnect(std::function<void()>) override {}
  void note(RequestFacts) override {}

  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers_) {
      if (key == name) return value;
    }
    return "";
  }

  int calls = 0, status_ = 0;
  std::string content_type_, body_;
  Headers headers_;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Recorder get(const std::string& path, const std::string& if_none_match = {}) {
  Recorder recorder;
  for (const Route& route : page_routes()) {
    if (route.path != path) continue;
    HttpRequest request{.method = "GET", .path = path};
    if (!if_none_match.empty()) request.headers["if-none-match"] = if_none_match;
    auto shared = std::make_shared<Recorder>();
    route.handler(request, shared);
    recorder = *shared;
  }
  return recorder;
}

TEST(Page, HoldsTheBuiltFilesByteForByte) {
  size_t total = 0;
  std::set<std::string_view> tags;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(EADEM_SOURCE_DIR) + "/web/dist")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory()) continue;  // report/: the template of the audit's reports
    const Asset* asset = find_asset(name == "index.html" ? "/" : "/" + name);
    ASSERT_NE(asset, nullptr) << name;
    EXPECT_EQ(asset->bytes, read(entry.path())) << name;
    EXPECT_FALSE(asset->content_type.empty());
    EXPECT_EQ(asset->etag.size(), 34u);
    tags.insert(asset->etag);
    total += asset->bytes.size();
  }
  EXPECT_EQ(tags.size(), assets().size());
  EXPECT_GT(total, 0u);
  EXPECT_LT(total, 200'000u);
  EXPECT_EQ(find_asset("/index.html"), nullptr);
  EXPECT_EQ(find_asset("/report/report.html"), nullptr);
  EXPECT_EQ(find_asset(""), nullptr);
  EXPECT_EQ(find_asset("/../page.js"), nullptr);
}

TEST(Page, ServesItWithPolicyAndTag) {
  const Recorder page = get("/");
  EXPECT_EQ(page.calls, 1);
  EXPECT_EQ(page.status_, 200);
  EXPECT_EQ(page.content_type_, "text/html; charset=utf-8");
  EXPECT_EQ(page.body_, find_asset("/")->bytes);
  EXPECT_NE(page.header("Content-Security-Policy").find("script-src 'self';"), std::string::npos);
  EXPECT_EQ(page.header("Content-Security-Policy").find("unsafe"), std::string::npos);
  EXPECT_EQ(page.header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page.header("ETag"), find_asset("/")->etag);
  for (const Route& route : page_routes()) EXPECT_TRUE(route.open) << route.path;
}

TEST(Page, AnswersThatNothingChanged) {
  const std::string tag(find_asset("/")->etag);
  for (const std::string& header : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const Recorder reply = get("/", header);
    EXPECT_EQ(reply.status_, 304) << header;
    EXPECT_EQ(reply.body_, "");
    EXPECT_EQ(reply.header("ETag"), tag);
  }
  EXPECT_EQ(get("/", "\"other\"").status_, 200);
}

}  // namespace
}  // namespace eadem::server
