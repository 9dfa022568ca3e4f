// What the matrix against an endpoint makes of bytes: events, answers, differences, and whether requests met.
#include <gtest/gtest.h>

#include "audit/black_box/answer.h"
#include "audit/black_box/declaration.h"
#include "audit/black_box/event_stream.h"
#include "audit/black_box/presence.h"
#include "audit/black_box/request.h"
#include "audit/black_box/trial.h"

namespace eadem::audit::black_box {
namespace {

TEST(EventStream, IsTheSameHoweverItIsCut) {
  const std::string stream = ": hello\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: x\ndata: two\n\n\n\ndata:three\n\n";
  const std::vector<std::string> wanted = {"{\"a\":\n1}", "two", "three"};
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    EventStream events;
    std::vector<std::string> got;
    for (size_t at = 0; at < stream.size(); at += piece) {
      const auto taken = events.add(stream.substr(at, piece), [&](const std::string& data) -> Result<void> {
        got.push_back(data);
        return {};
      });
      ASSERT_TRUE(taken.ok());
    }
    EXPECT_EQ(got, wanted) << piece;
    EXPECT_FALSE(events.open());
  }
}

TEST(EventStream, HasALimit) {
  EventStream events;
  const std::string part(size_t{1} << 20, 'x');
  Result<void> taken;
  for (int i = 0; i < 17 && taken.ok(); ++i) {
    taken = events.add(part, [](const std::string&) -> Result<void> { return {}; });
  }
  EXPECT_FALSE(taken.ok());
}

Result<Answer> read(const std::vector<std::string>& objects) {
  AnswerReader reader;
  for (const std::string& object : objects) {
    const auto added = reader.add(object);
    if (!added.ok()) return added.error();
  }
  return reader.finish();
}

TEST(AnswerReader, PiecesMakeTheWhole) {
  const auto whole = read({R"({"choices":[{"index":0,"text":"ab","token_ids":[5,6],"finish_reason":"length",
      "logprobs":{"tokens":["a","b"],"token_logprobs":[-0.5,null],"top_logprobs":[{"a":-0.5},{"b":-1}]}}],
      "system_fingerprint":"f","usage":{"prompt_tokens":3,"completion_tokens":2}})"});
  const auto pieces = read({R"({"choices":[{"index":0,"text":"a","token_ids":[5],
      "logprobs":{"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{"a":-0.5}]}}]})",
                            R"({"choices":[{"index":0,"text":"b","token_ids":[6],"finish_reason":null,
      "logprobs":{"tokens":["b"],"token_logprobs":[null],"top_logprobs":[{"b":-1}]}}]})",
                            R"({"choices":[{"index":0,"text":"","finish_reason":"length"}],"system_fingerprint":"f"})",
                            R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}})"});
  ASSERT_TRUE(whole.ok() && pieces.ok());
  EXPECT_EQ(to_json(whole.value().choices[0]), to_json(pieces.value().choices[0]));
  EXPECT_EQ(whole.value().system_fingerprint, "f");
  EXPECT_EQ(pieces.value().completion_tokens, 2);
  EXPECT_TRUE(difference_of(whole.value().choices[0], pieces.value().choices[0]).is_null());
}

TEST(AnswerReader, ChatSaysTheSame) {
  const auto chat = read({R"({"choices":[{"index":0,"delta":{"role":"assistant"}}]})",
                          R"({"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[
      {"token":"a","logprob":-0.5,"top_logprobs":[{"token":"a","logprob":-0.5}]}]}}]})",
                          R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"});
  ASSERT_TRUE(chat.ok());
  const Choice& choice = chat.value().choices[0];
  EXPECT_EQ(choice.text, "a");
  EXPECT_EQ(choice.tokens, std::vector<std::string>{"a"});
  EXPECT_EQ(choice.top_logprobs.dump(), R"([[["a",-0.5]]])");
}

TEST(AnswerReader, FaultsAreNamed) {
  const auto message = [](const std::vector<std::string>& objects) {
    const auto answer = read(objects);
    return answer.ok() ? std::string() : answer.error().message;
  };
  EXPECT_NE(message({"<html>"}).find("no JSON object"), std::string::npos);
  EXPECT_NE(message({R"({"error":{"message":"out of\nmemory"}})"}).find("out of memory"), std::string::npos);
  EXPECT_NE(message({"{}"}).find("without `choices`"), std::string::npos);
  EXPECT_NE(message({R"({"choices":[{"text":"a"}]})"}).find("no finish_reason"), std::string::npos);
  EXPECT_NE(message({R"({"choices":[{"index":-1}]})"}).find("index"), std::string::npos);
  EXPECT_NE(message({R"({"choices":[7]})"}).find("index"), std::string::npos);
  const std::string end = R"({"choices":[{"text":"a","finish_reason":"stop"}]})";
  EXPECT_NE(message({end, end}).find("after its finish_reason"), std::string::npos);
}

Choice choice_of(const std::string& text, std::vector<int64_t> ids, std::vector<double> logprobs) {
  Choice choice;
  choice.text = text;
  choice.token_ids = std::move(ids);
  for (const double logprob : logprobs) choice.logprobs.push_back(logprob);
  choice.finish_reason = "length";
  return choice;
}

TEST(Difference, SeesTheLastDigit) {
  const Choice was = choice_of("abc", {1, 2, 3}, {-0.5, -1.25, -2});
  EXPECT_TRUE(difference_of(was, was).is_null());
  const auto in_double = difference_of(was, choice_of("abc", {1, 2, 3}, {-0.5, -1.2500000000000002, -2}));
  EXPECT_EQ(in_double["field"], "logprobs");  // below a float32's digits
  EXPECT_EQ(in_double["position"], 1);
  EXPECT_EQ(difference_of(was, choice_of("abc", {1, 9, 3}, {-0.5, -1.25, -2}))["field"], "token_ids");
  EXPECT_EQ(difference_of(was, choice_of("abd", {}, {}))["field"], "token_ids");
  EXPECT_EQ(difference_of(was, choice_of("abd", {}, {}), Extent::kCommon)["field"], "text");
}

TEST(Difference, ABeginningIsEnoughWhereItIsWanted) {
  const Choice was = choice_of("abc", {1, 2, 3}, {-0.5, -1.25, -2});
  Choice shorter = choice_of("ab", {1, 2}, {-0.5, -1.25});
  shorter.finish_reason = "stop";
  EXPECT_TRUE(difference_of(was, shorter, Extent::kPrefix).is_null());
  EXPECT_FALSE(difference_of(was, shorter, Extent::kCommon).is_null());
  EXPECT_FALSE(difference_of(was, choice_of("ax", {1, 2}, {-0.5, -1.25}), Extent::kPrefix).is_null());
  EXPECT_FALSE(difference_of(was, choice_of("ab", {1, 4}, {-0.5, -1.25}), Extent::kPrefix).is_null());
  EXPECT_FALSE(difference_of(shorter, was, Extent::kPrefix).is_null()) << "more than there was";
}

std::shared_ptr<Sent> sent_with(const std::vector<uint64_t>& rounds) {
  auto sent = std::make_shared<Sent>();
  for (const uint64_t round : rounds) sent->marks.push_back({round, 1});
  sent->done = true;
  sent->done_round = rounds.empty() ? 100 : rounds.back() + 1;
  return sent;
}

TEST(Presence, TokensBetweenTokens) {
  const auto request = sent_with({10, 11, 12, 13, 14, 15, 16, 17});
  EXPECT_TRUE(presence_of(*request, {sent_with({9, 11, 13, 15})}, {}).reached);
  EXPECT_TRUE(presence_of(*request, {sent_with({10, 11, 12})}, {}).reached) << "in the same rounds";
  // One after the other; what was written before may be read beside the first token, what comes after beside the last.
  EXPECT_FALSE(presence_of(*request, {sent_with({1, 2, 3, 10})}, {}).reached);
  EXPECT_FALSE(presence_of(*request, {sent_with({10, 10, 10, 10, 10})}, {}).reached);
  EXPECT_FALSE(presence_of(*request, {sent_with({17, 18, 19, 20})}, {}).reached);
  EXPECT_FALSE(presence_of(*request, {}, {}).reached);
}

TEST(Presence, AGaugeIsBelievedWhereStreamsCannotShowIt) {
  const std::vector<Reading> busy = {{11, 12, 4.0}};
  const auto seen = sent_with({10, 11, 12, 13, 14, 15, 16, 17}), apart = sent_with({1, 2, 3});
  EXPECT_FALSE(presence_of(*seen, {apart}, busy).reached) << "a gauge that counts what waits";
  const auto lumped = sent_with({10, 14});
  EXPECT_TRUE(presence_of(*lumped, {apart}, busy).reached);
  EXPECT_EQ(presence_of(*lumped, {apart}, busy).strength(), "weak");
  EXPECT_FALSE(presence_of(*lumped, {apart}, {{11, 12, 1.0}}).reached);
  EXPECT_FALSE(presence_of(*lumped, {apart}, {{3, 4, 9.0}, {14, 90, 9.0}}).reached) << "before and after";
  const auto beside = sent_with({10, 11, 12, 13, 14});
  EXPECT_EQ(presence_of(*seen, {beside}, busy).strength(), "strong");
  EXPECT_EQ(presence_of(*seen, {beside}, {}).strength(), "moderate");
}

TEST(Metrics, SumsLabels) {
  const std::string text = "# HELP a b\na{x=\"1\"} 2\na{x=\"} 7\"} 3\nab 9\na_total 4\nb nonsense\n";
  EXPECT_EQ(sample_of(text, "a"), 5.0);
  EXPECT_EQ(sample_of(text, "ab"), 9.0);
  EXPECT_FALSE(sample_of(text, "c").has_value());
}

TEST(Words, AreAsManyAsAskedAndTheSame) {
  for (const int count : {1, 2, 3, 10, 250}) {
    const std::string text = words(count, 5);
    EXPECT_EQ(std::count(text.begin(), text.end(), ' ') + 1, count);
    EXPECT_EQ(text, words(count, 5));
  }
  EXPECT_NE(words(10, 5).substr(0, 7), words(10, 6).substr(0, 7));
}

TEST(Declaration, TheOneInTheProgramIsSound) {
  for (const char* matrix : {"quick", "full"}) {
    const auto plans = read_declaration("", matrix);
    ASSERT_TRUE(plans.ok()) << plans.error().message;
    EXPECT_GE(plans.value().size(), 30u);
  }
}

}  // namespace
}  // namespace eadem::audit::black_box
