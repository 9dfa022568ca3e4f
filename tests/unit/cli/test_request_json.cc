// The codec of requests: every field there and back, and one line for whatever is wrong.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/request_json.h"

namespace eadem::api {
namespace {

using nlohmann::json;

std::string fault(const std::string& line) {
  const auto parsed = parse_line(line);
  if (!parsed.ok()) return parsed.error().message;
  const auto request = parse_request(parsed.value(), {});
  return request.ok() ? "" : request.error().message;
}

TEST(RequestJson, EveryFieldThereAndBack) {
  SamplingParams sampling;
  sampling.max_tokens = 7, sampling.min_tokens = 2, sampling.top_k = 5, sampling.n = 3;
  sampling.temperature = 0.1f, sampling.top_p = 0.7f, sampling.min_p = 1e-7f;
  sampling.repetition_penalty = 1.3f, sampling.presence_penalty = -0.3f, sampling.frequency_penalty = 2.0f;
  sampling.logit_bias = {{3, -100.0f}, {70, 0.3f}};
  sampling.seed = 18446744073709551615u;
  sampling.stop = {"a", "\n"}, sampling.stop_token_ids = {4, 5}, sampling.golden_token_ids = {6};
  sampling.ignore_eos = true, sampling.include_stop_str_in_output = true, sampling.skip_special_tokens = false;
  sampling.logprobs = 2, sampling.prompt_logprobs = 0, sampling.processed_logprobs = true;
  const json written = json::parse(to_json(sampling).dump());
  const auto again = parse_sampling(written, {});
  ASSERT_TRUE(again.ok()) << again.error().message;
  const SamplingParams& read = again.value();
  EXPECT_EQ(json(to_json(read)), written);
  EXPECT_EQ(read.temperature, 0.1f);
  EXPECT_EQ(read.min_p, 1e-7f);
  EXPECT_EQ(read.seed, sampling.seed);
  EXPECT_EQ(read.logit_bias, sampling.logit_bias);
  EXPECT_EQ(read.stop, sampling.stop);
  EXPECT_TRUE(read.processed_logprobs && read.ignore_eos && !read.skip_special_tokens);
}

TEST(RequestJson, FieldsOfALineWinOverDefaults) {
  SamplingParams defaults;
  defaults.top_k = 40, defaults.temperature = 0.6f;
  const auto request = parse_request(json::parse(R"({"prompt": "x", "top_k": -1, "temperature": null})"), defaults);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().sampling.top_k, 0);
  EXPECT_EQ(request.value().sampling.temperature, 0.6f);
}

TEST(RequestJson, ChatCountsItsLogprobsApart) {
  const auto request = parse_request(json::parse(R"({"messages": [], "logprobs": true, "top_logprobs": 4})"), {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().sampling.logprobs, 4);
  EXPECT_EQ(request.value().messages, "[]");
}

TEST(RequestJson, FieldsKeepTheirOrder) {
  const std::string tools = R"([{"type":"function","function":{"name":"z","description":"a"}}])";
  const auto line = parse_line(R"({"messages": [], "tools": )" + tools + "}");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(parse_request(line.value(), {}).value().tools, tools);
}

TEST(RequestJson, EachFaultNamesItsField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "x")", "not valid JSON"},
      {R"({"prompt": "x"} y)", "not valid JSON"},
      {"{\"prompt\": \"\xff\"}", "not valid JSON"},
      {R"({"prompt": "\ud800"})", "not valid JSON"},
      {R"({"prompt": "x", "max_tokens": 1e999})", "too large"},
      {"[]", "object"},
      {"{}", "'prompt' or 'messages'"},
      {R"({"prompt": "x", "messages": []})", "'prompt' or 'messages'"},
      {R"({"prompt": "x", "tools": []})", "tools"},
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": [1, "2"]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": "x", "n": 0})", "'n'"},
      {R"({"prompt": "x", "max_tokens": 1.5})", "max_tokens"},
      {R"({"prompt": "x", "seed": -1})", "seed"},
      {R"({"prompt": "x", "temperature": 1e39})", "temperature"},
      {R"({"prompt": "x", "stop": 3})", "stop"},
      {R"({"prompt": "x", "logit_bias": {"a": 1}})", "logit_bias"},
      {R"({"prompt": "x", "logit_bias": [1]})", "logit_bias"},
      {R"({"prompt": "x", "logprobs_mode": "cooked"})", "logprobs_mode"},
      {R"({"prompt": "x", "ignore_eos": 1})", "ignore_eos"},
      {R"({"prompt": "x", "id": 5})", "'id'"},
      {R"({"prompt": "x", "n": 1, "n": 2})", "'n' stands there twice"},
      {R"({"prompt": "x", "stream": true})", "stream"},
  };
  for (const auto& [line, word] : cases) {
    const std::string message = fault(line);
    EXPECT_NE(message.find(word), std::string::npos) << line << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(fault(R"({"prompt": "x"})"), "");
}

TEST(RequestJson, DepthAndLengthOfNamesAreBounded) {
  EXPECT_NE(fault(R"({"messages": )" + std::string(100000, '[')).find("nested"), std::string::npos);
  EXPECT_EQ(fault(R"({"messages": [{"role": "user", "content": "[[[[{{{{"}]})"), "");
  std::string wide = "{\"prompt\": \"x\", \"logit_bias\": {\"0\": 1";
  for (int i = 1; i <= 5000; ++i) wide += ",\"" + std::to_string(i) + "\": 1";
  EXPECT_NE(fault(wide + "}}").find("fields"), std::string::npos);
  EXPECT_LT(fault("{\"" + std::string(5000, 'a') + "\": 1}").size(), 300u);
}

}  // namespace
}  // namespace eadem::api
