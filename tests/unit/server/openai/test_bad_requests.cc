// Each field wrong in kind or range: 400 in OpenAI's shape, with the field as `param`, and never an answer.
#include "api.h"

namespace eadem::server {
namespace {

class BadRequests : public ApiTest {};

struct Case {
  const char *extra, *param;
};

const Case kBoth[] = {
    {R"({"temperature": -0.5})", "temperature"},
    {R"({"temperature": "hot"})", "temperature"},
    {R"({"temperature": 1e-9})", "temperature"},
    {R"({"temperature": 1e300})", "temperature"},
    {R"({"top_p": 0})", "top_p"},
    {R"({"top_p": 1.01})", "top_p"},
    {R"({"top_k": -2})", "top_k"},
    {R"({"top_k": 1.5})", "top_k"},
    {R"({"min_p": -1})", "min_p"},
    {R"({"repetition_penalty": 0})", "repetition_penalty"},
    {R"({"presence_penalty": 2.5})", "presence_penalty"},
    {R"({"frequency_penalty": -2.5})", "frequency_penalty"},
    {R"({"logit_bias": {"5": 101}})", "logit_bias"},
    {R"({"logit_bias": {"x": 1}})", "logit_bias"},
    {R"({"logit_bias": {"211": 1}})", "logit_bias"},
    {R"({"logit_bias": [1]})", "logit_bias"},
    {R"({"seed": -1})", "seed"},
    {R"({"seed": 1.5})", "seed"},
    {R"({"n": 0})", "n"},
    {R"({"n": 1025})", "n"},
    {R"({"n": "2"})", "n"},
    {R"({"max_tokens": -1})", "max_tokens"},
    {R"({"max_tokens": 0})", "max_tokens"},
    {R"({"max_tokens": "5"})", "max_tokens"},
    {R"({"max_tokens": 99999999999})", "max_tokens"},
    {R"({"min_tokens": 6, "max_tokens": 5})", "min_tokens"},
    {R"({"stop": 5})", "stop"},
    {R"({"stop": [""]})", "stop"},
    {R"({"stop_token_ids": [-1]})", "stop_token_ids"},
    {R"({"stop_token_ids": [500]})", "stop_token_ids"},
    {R"({"ignore_eos": 1})", "ignore_eos"},
    {R"({"include_stop_str_in_output": "yes"})", "include_stop_str_in_output"},
    {R"({"skip_special_tokens": 0})", "skip_special_tokens"},
    {R"({"prompt_logprobs": 21})", "prompt_logprobs"},
    {R"({"prompt_logprobs": true})", "prompt_logprobs"},
    {R"({"logprobs_mode": "some"})", "logprobs_mode"},
    {R"({"golden_token_ids": [900]})", "golden_token_ids"},
    {R"({"response_format": {"type": "xml"}})", "response_format"},
    {R"({"response_format": {"type": "json_schema"}})", "response_format.json_schema"},
    {R"({"guided_choice": []})", "guided_choice"},
    {R"({"guided_choice": ["a"], "guided_regex": "a"})", "guided_regex"},
    {R"({"structured_outputs": {}})", "structured_outputs"},
    {R"({"stream": "yes"})", "stream"},
    {R"({"stream_options": {"include_usage": true}})", "stream_options"},
    {R"({"stream": true, "stream_options": {"other": true}})", "stream_options"},
    {R"({"stream": true, "stream_options": {"include_usage": 1}})", "stream_options"},
    {R"({"return_token_ids": "x"})", "return_token_ids"},
    {R"({"priority": 1e10})", "priority"},
    {R"({"timeout": 0})", "timeout"},
    {R"({"timeout": "1"})", "timeout"},
    {R"({"model": 5})", "model"},
    {R"({"user": 5})", "user"},
    {R"({"metadata": []})", "metadata"},
    {R"({"store": "x"})", "store"},
    {R"({"best_of": 2})", "best_of"},
    {R"({"functions": []})", "functions"},
    {R"({"reasoning_effort": "low"})", "reasoning_effort"},
    {R"({"use_beam_search": true})", "use_beam_search"},
    {R"({"nonsense": 1})", "nonsense"},
};

void expect_refused(Api& api, const std::string& path, ordered_json body, const Case& one) {
  body.update(ordered_json::parse(one.extra));
  const Answer answer = api.post(path, body);
  ASSERT_EQ(answer.status, 400) << path << " " << one.extra << answer.body;
  const ordered_json& error = answer.body["error"];
  EXPECT_EQ(error["param"], one.param) << one.extra << error;
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_FALSE(error["message"].get<std::string>().empty());
  EXPECT_EQ(error["message"].get<std::string>().find('\n'), std::string::npos);
}

const ordered_json kCompletion = {{"prompt", "a"}, {"max_tokens", 5}};
const ordered_json kConversation = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 5}};

TEST_F(BadRequests, EachFieldIsNamedByBothEndpoints) {
  for (const Case& one : kBoth) {
    expect_refused(api(), "/v1/completions", kCompletion, one);
    expect_refused(api(), "/v1/chat/completions", kConversation, one);
  }
  EXPECT_EQ(api().post("/v1/completions", kCompletion).status, 200) << "the control";
  EXPECT_EQ(api().post("/v1/chat/completions", kConversation).status, 200) << "the control";
}

TEST_F(BadRequests, OfCompletions) {
  const Case cases[] = {
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": ["a", 5]})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": [[1], "a"]})", "prompt"},
      {R"({"prompt": [[]]})", "prompt"},
      {R"({"prompt": [211]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": {"a": 1}})", "prompt"},
      {R"({"prompt": null})", "prompt"},
      {R"({"prompt": ["a", "b"], "n": 1000})", "n"},
      {R"({"logprobs": true})", "logprobs"},
      {R"({"logprobs": 21})", "logprobs"},
      {R"({"logprobs": -1})", "logprobs"},
      {R"({"top_logprobs": 2})", "top_logprobs"},
      {R"({"echo": 1})", "echo"},
      {R"({"suffix": "x"})", "suffix"},
      {R"({"messages": []})", "messages"},
      {R"({"max_completion_tokens": 5})", "max_completion_tokens"},
  };
  for (const Case& one : cases) expect_refused(api(), "/v1/completions", kCompletion, one);
}

TEST_F(BadRequests, OfChat) {
  const Case cases[] = {
      {R"({"messages": []})", "messages"},
      {R"({"messages": "a"})", "messages"},
      {R"({"messages": null})", "messages"},
      {R"({"messages": [5]})", "messages[0]"},
      {R"({"messages": [{"content": "a"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages[0].content[0].type"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages": [{"role": "user", "content": "a", "size": 4}]})", "messages[0]"},
      {R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f",
           "arguments": "{"}}]}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"logprobs": 3})", "logprobs"},
      {R"({"top_logprobs": 2})", "top_logprobs"},
      {R"({"logprobs": true, "top_logprobs": 21})", "top_logprobs"},
      {R"({"max_completion_tokens": 5})", "max_completion_tokens"},
      {R"({"max_tokens": null, "max_completion_tokens": 0})", "max_completion_tokens"},
      {R"({"continue_final_message": true})", "continue_final_message"},
      {R"({"chat_template_kwargs": 5})", "chat_template_kwargs"},
      {R"({"chat_template_kwargs": {"messages": []}})", "chat_template_kwargs"},
      {R"({"chat_template": "x"})", "chat_template"},
      {R"({"prompt": "a"})", "prompt"},
      {R"({"echo": true})", "echo"},
      {R"({"tools": 5})", "tools"},
  };
  for (const Case& one : cases) expect_refused(api(), "/v1/chat/completions", kConversation, one);
}

TEST_F(BadRequests, OfTheSmallerEndpoints) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"/v1/embeddings", "{}", "input"},
      {"/v1/embeddings", R"({"input": []})", "input"},
      {"/v1/embeddings", R"({"input": "a", "dimensions": 5})", "dimensions"},
      {"/v1/embeddings", R"({"input": "a", "encoding_format": "hex"})", "encoding_format"},
      {"/v1/embeddings", R"({"input": "a", "pooling": "max"})", "pooling"},
      {"/v1/embeddings", R"({"input": "a", "temperature": 1})", "temperature"},
      {"/tokenize", "{}", "prompt"},
      {"/tokenize", R"({"prompt": "a", "messages": []})", "prompt"},
      {"/tokenize", R"({"prompt": 5})", "prompt"},
      {"/tokenize", R"({"prompt": "a", "tools": []})", "tools"},
      {"/detokenize", "{}", "tokens"},
      {"/detokenize", R"({"tokens": [211]})", "tokens"},
      {"/detokenize", R"({"tokens": ["a"]})", "tokens"},
      {"/v1/verify", "{}", "eadem"},
      {"/v1/verify", R"({"eadem": {}, "prompt_token_ids": [5], "token_ids": [5]})", "eadem.fingerprint"},
      {"/v1/verify", R"({"eadem": 5, "prompt_token_ids": [5], "token_ids": [5]})", "eadem"},
  };
  for (const auto& [path, body, param] : cases) {
    const Answer answer = api().post_text(path, body);
    EXPECT_EQ(answer.status, 400) << path << body << answer.body;
    EXPECT_EQ(answer.body["error"]["param"], param) << path << body << answer.body;
  }
}

TEST_F(BadRequests, BodiesThatAreNone) {
  for (const char* const path :
       {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize", "/v1/verify"}) {
    for (const std::string& body :
         {std::string(), std::string("[]"), std::string("5"), std::string("{"), std::string("{\"prompt\": \"\xff\"}"),
          std::string(100000, '['), std::string(R"({"model": "tiny", "model": "tiny"})")}) {
      const Answer answer = api().post_text(path, body);
      EXPECT_EQ(answer.status, 400) << path;
      EXPECT_EQ(answer.body["error"]["type"], "invalid_request_error");
    }
    EXPECT_EQ(api().post_text(path, R"({"x\n\u0001'": 1})").body["error"]["param"], "x???");
  }
}

TEST_F(BadRequests, AnotherModelIsNotFound) {
  for (const auto& [path, body] :
       {std::pair("/v1/completions", kCompletion), std::pair("/v1/chat/completions", kConversation)}) {
    ordered_json other = body;
    other["model"] = "gpt-4";
    const Answer answer = api().post(path, other);
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.body["error"]["code"], "model_not_found");
    other["model"] = "also-tiny";
    EXPECT_EQ(api().post(path, other).status, 200);
  }
}

TEST_F(BadRequests, APromptOverTheContextIsRefusedByName) {
  const Answer answer = api().post("/v1/completions", {{"prompt", std::vector<int>(3000, 5)}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body["error"]["param"], "prompt");
  EXPECT_EQ(answer.body["error"]["code"], "context_length_exceeded");
  const Answer chat =
      api().post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", std::string(5000, 'q')}}}}});
  EXPECT_EQ(chat.body["error"]["param"], "messages");
}

TEST_F(BadRequests, FieldsWithoutEffectHaveNone) {
  ordered_json body = kCompletion;
  body["seed"] = 3;
  const Answer plain = api().post("/v1/completions", body);
  body.update(ordered_json::parse(R"({"user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "auto",
      "prompt_cache_key": "k", "safety_identifier": "s", "prompt_cache_retention": "24h", "best_of": null,
      "suffix": null, "model": null, "stop": null})"));
  const Answer more = api().post("/v1/completions", body);
  ASSERT_EQ(more.status, 200) << more.body;
  EXPECT_EQ(more.body["choices"], plain.body["choices"]);
}

}  // namespace
}  // namespace eadem::server
