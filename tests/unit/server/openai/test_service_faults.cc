// What goes wrong around a request: clients that leave, full queues, time limits, a server that stops.
#include "api.h"

namespace eadem::server {
namespace {

// The literal walk of mma16's trees takes seconds for a long answer: none is over before a test has done what it will.
ServiceOptions slow() {
  ServiceOptions options;
  options.engine.numerics = "mma16", options.engine.isa = "reference";
  return options;
}

ordered_json long_ask(int tokens = 1500) {
  return {{"prompt", "the cat sat"}, {"max_tokens", tokens}, {"ignore_eos", true}, {"stream", true}};
}

bool wait_until(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(ServiceFaults, AClientThatLeavesFreesItsBlocks) {
  Api api(slow());
  ordered_json body = long_ask();
  body["n"] = 2, body["prompt"] = {"a", "the cat"};
  const auto reply = api.start("POST", "/v1/completions", body.dump());
  ASSERT_TRUE(reply->wait_for_writes(3));
  EXPECT_GT(api.service->stats().running + api.service->stats().waiting, 0);
  reply->disconnect();
  EXPECT_TRUE(wait_until([&] { return api.service->idle(); }));
  EXPECT_EQ(api.service->stats().kv_blocks_used, 0);
  EXPECT_FALSE(reply->ended());
  EXPECT_EQ(reply->facts().finish_reason, "cancelled");
  EXPECT_EQ(api.service->stats().counters.cancelled, 4u);
}

TEST(ServiceFaults, AFullQueueIsSaidWith429) {
  ServiceOptions options = slow();
  options.engine.max_batch = 1, options.max_waiting = 2;
  Api api(options);
  std::vector<std::shared_ptr<FakeReply>> replies;
  for (int i = 0; i < 8; ++i) replies.push_back(api.start("POST", "/v1/completions", long_ask(200).dump()));
  ordered_json batch = long_ask(50);
  batch["prompt"] = {"a", "b", "c", "d", "e"};
  batch["stream"] = false;
  const auto refused_batch = api.start("POST", "/v1/completions", batch.dump());
  ASSERT_TRUE(refused_batch->wait());
  EXPECT_EQ(refused_batch->status(), 429);
  int refused = 0;
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply->wait());
    if (reply->status() != 429) continue;
    ++refused;
    EXPECT_EQ(ordered_json::parse(reply->body())["error"]["type"], "rate_limit_error");
    EXPECT_EQ(reply->headers(), (Headers{{"Retry-After", "1"}}));
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 8);
  EXPECT_TRUE(wait_until([&] { return api.service->idle(); })) << "nothing of the refused batch runs on";
}

TEST(ServiceFaults, ADrainingServerSays503) {
  Api api(slow());
  const auto under_way = api.start("POST", "/v1/completions", long_ask(100).dump());
  ASSERT_TRUE(under_way->wait_for_writes(1));
  api.service->drain();
  const Answer late = api.post("/v1/completions", {{"prompt", "a"}});
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.body["error"]["code"], "draining");
  ASSERT_TRUE(under_way->wait());
  EXPECT_NE(under_way->body().find("[DONE]"), std::string::npos) << "what is under way goes on";
}

TEST(ServiceFaults, ATimeLimitEndsARequest) {
  Api api(slow());
  ordered_json body = long_ask();
  body["timeout"] = 0.05;
  const auto streamed = api.start("POST", "/v1/completions", body.dump());
  ASSERT_TRUE(streamed->wait());
  const auto events = Api::events(streamed->body());
  EXPECT_EQ(events.back()["error"]["code"], "timeout");
  EXPECT_EQ(streamed->body().find("[DONE]"), std::string::npos);
  body["stream"] = false;
  const Answer whole = api.post("/v1/completions", body);
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.body["error"]["type"], "timeout_error");
}

TEST(ServiceFaults, AServiceThatGoesEndsWhatIsUnderWay) {
  std::shared_ptr<FakeReply> streamed, whole;
  {
    Api api(slow());
    streamed = api.start("POST", "/v1/completions", long_ask().dump());
    ordered_json body = long_ask();
    body["stream"] = false;
    whole = api.start("POST", "/v1/completions", body.dump());
    ASSERT_TRUE(streamed->wait_for_writes(1));
  }
  ASSERT_TRUE(streamed->wait());
  ASSERT_TRUE(whole->wait());
  EXPECT_EQ(whole->status(), 503);
  EXPECT_EQ(Api::events(streamed->body()).back()["error"]["code"], "draining");
}

TEST(ServiceFaults, AModelWithoutATokenizerTakesTokenIds) {
  Api api({}, false);
  const Answer answer =
      api.post("/v1/completions",
               {{"prompt", {5, 6, 7}}, {"max_tokens", 4}, {"logprobs", 1}, {"echo", true}, {"return_token_ids", true}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body["choices"][0]["logprobs"]["tokens"][0], "token_id:5");
  EXPECT_EQ(api.post("/v1/completions", {{"prompt", "a"}}).status, 400);
  EXPECT_EQ(api.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}}).status, 400);
  EXPECT_EQ(api.get("/tokenizer_info").status, 200);
}

}  // namespace
}  // namespace eadem::server
