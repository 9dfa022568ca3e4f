// /v1/chat/completions: templates, contents, thoughts, tools, logprobs, streams equal to whole replies.
#include "api.h"

namespace eadem::server {
namespace {

class Chat : public ApiTest {};

const std::string kPath = "/v1/chat/completions";

ordered_json ask(const std::string& extra = "{}") {
  ordered_json body = {{"messages", {{{"role", "user"}, {"content", "say it"}}}}, {"max_tokens", 12}, {"seed", 7}};
  body.update(ordered_json::parse(extra));
  return body;
}

// An answer that says `text`, whatever the model thinks of it.
ordered_json ask_for(Api& api, const std::string& text, const std::string& extra = "{}") {
  ordered_json body = ask(extra);
  const ordered_json tokens = api.post("/tokenize", {{"prompt", text}, {"add_special_tokens", false}}).body["tokens"];
  body["golden_token_ids"] = tokens;
  body["max_tokens"] = tokens.size();
  return body;
}

ordered_json joined(const std::vector<ordered_json>& chunks) {
  std::map<int, ordered_json> by_index;
  for (const ordered_json& chunk : chunks) {
    for (const ordered_json& part : chunk.at("choices")) {
      const bool first = by_index.count(part["index"].get<int>()) == 0;
      ordered_json& choice = by_index[part["index"].get<int>()];
      const ordered_json& delta = part["delta"];
      EXPECT_EQ(first, delta.contains("role")) << "the first chunk of a choice, and no other, has the role";
      if (first) choice = {{"index", part["index"]}, {"message", {{"role", "assistant"}, {"content", ""}}}};
      ordered_json& message = choice["message"];
      for (const char* name : {"content", "reasoning_content"}) {
        if (!delta.contains(name)) continue;
        message[name] = message.value(name, "") + delta[name].get<std::string>();
      }
      for (ordered_json call : delta.value("tool_calls", ordered_json::array())) {
        EXPECT_EQ(call["index"], message.value("tool_calls", ordered_json::array()).size());
        call.erase("index");
        message["tool_calls"].push_back(call);
      }
      if (!part["logprobs"].is_null()) {
        for (const ordered_json& entry : part["logprobs"]["content"]) choice["logprobs"]["content"].push_back(entry);
      }
      for (const char* name : {"token_ids", "prompt_token_ids"}) {
        for (const ordered_json& id : part.value(name, ordered_json::array())) choice[name].push_back(id);
      }
      if (!part["finish_reason"].is_null()) choice["finish_reason"] = part["finish_reason"];
    }
  }
  ordered_json choices = ordered_json::array();
  for (auto& [index, choice] : by_index) choices.push_back(std::move(choice));
  return choices;
}

// The whole reply's choices without what a stream does not repeat.
nlohmann::json bare(ordered_json choices) {
  for (ordered_json& choice : choices) {
    choice["message"].erase("refusal");
    if (choice["message"]["content"].is_null()) choice["message"]["content"] = "";
    if (choice.contains("logprobs") && choice["logprobs"].is_null()) choice.erase("logprobs");
    if (choice.contains("logprobs")) choice["logprobs"].erase("refusal");
  }
  return choices;
}

void expect_stream_equals_whole(Api& api, const ordered_json& body) {
  const Answer whole = api.post(kPath, body);
  ASSERT_EQ(whole.status, 200) << body << whole.body;
  const auto chunks = api.stream(kPath, body);
  EXPECT_EQ(bare(joined(chunks)), bare(whole.body["choices"])) << body;
  EXPECT_EQ(chunks.front()["eadem"], whole.body["eadem"]);
}

TEST_F(Chat, HasOpenAIsShape) {
  const Answer answer = api().post(kPath, ask(R"({"logprobs": true, "top_logprobs": 2})"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body["id"], "chatcmpl-r1");
  EXPECT_EQ(answer.body["object"], "chat.completion");
  const ordered_json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_TRUE(choice["message"]["content"].is_string());
  const ordered_json& entry = choice["logprobs"]["content"][0];
  EXPECT_EQ(entry["top_logprobs"].size(), 2u);
  std::string bytes;
  for (const ordered_json& byte : entry["bytes"]) bytes += static_cast<char>(byte.get<int>());
  EXPECT_TRUE(entry["token"] == bytes || entry["token"].get<std::string>().starts_with("bytes:"));
}

TEST_F(Chat, WithoutALimitAnAnswerTakesWhatFits) {
  ordered_json body = ask(R"({"temperature": 0})");
  body.erase("max_tokens");
  body["logit_bias"] = {{"1", 100}};
  const Answer answer = api().post(kPath, body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer.body["eadem"]["sampling"]["max_tokens"].get<int64_t>(),
            2048 - answer.body["usage"]["prompt_tokens"].get<int64_t>());
}

TEST_F(Chat, MessagesAreRenderedByTheTemplate) {
  const auto text_of = [&](const ordered_json& body) {
    const Answer tokens = api().post("/tokenize", body);
    EXPECT_EQ(tokens.status, 200) << tokens.body;
    return api().post("/detokenize", {{"tokens", tokens.body["tokens"]}}).body["prompt"].get<std::string>();
  };
  EXPECT_EQ(text_of({{"messages", {{{"role", "user"}, {"content", "say it"}}}}}),
            "<|im_start|>user\nsay it<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(
      text_of(
          {{"messages",
            {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}},
           {"add_generation_prompt", false}}),
      "<|im_start|>user\na\nb<|im_end|>\n");
  EXPECT_EQ(text_of({{"messages", {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", " so "}}}},
                     {"add_generation_prompt", false},
                     {"continue_final_message", true}}),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n so ");
  const ordered_json call = {
      {"id", "x"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", R"({"z": 1, "a": 2})"}}}};
  EXPECT_EQ(text_of({{"messages", {{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}}},
                     {"add_generation_prompt", false}}),
            "<|im_start|>assistant\n<tool_call>{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}</tool_call>"
            "<|im_end|>\n");
}

TEST_F(Chat, StreamsJoinToTheWholeReply) {
  for (const char* const extra :
       {"{}", R"({"n": 3, "logprobs": true, "top_logprobs": 3})", R"({"stop": ["e", "t"], "max_tokens": 80})",
        R"({"return_token_ids": true, "logprobs": true, "temperature": 2.0, "top_k": 0})"}) {
    expect_stream_equals_whole(api(), ask(extra));
  }
}

TEST_F(Chat, ThoughtsAreNoContent) {
  for (const char* const extra : {"{}", R"({"logprobs": true})"}) {
    const ordered_json body = ask_for(api(), "<think>let me see</think>\n\nit is", extra);
    const Answer answer = api().post(kPath, body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body["choices"][0]["message"]["reasoning_content"], "let me see");
    EXPECT_EQ(answer.body["choices"][0]["message"]["content"], "it is");
    expect_stream_equals_whole(api(), body);
  }
}

const char* const kTools = R"({"tools": [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type":
    "integer"}}}}}, {"type": "function", "function": {"name": "g"}}]})";

TEST_F(Chat, CallsOfToolsAreFound) {
  const std::string text =
      "so<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call><tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
  const ordered_json body = ask_for(api(), text, kTools);
  const Answer answer = api().post(kPath, body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const ordered_json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "so");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2u) << choice;
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"x\": 1}");
  EXPECT_NE(choice["message"]["tool_calls"][0]["id"], choice["message"]["tool_calls"][1]["id"]);
  EXPECT_EQ(api().post(kPath, body).body["choices"], answer.body["choices"]) << "the ids too";
  expect_stream_equals_whole(api(), body);
}

TEST_F(Chat, SchemasHoldTheContent) {
  const ordered_json body = ask(R"({"max_tokens": 200, "response_format": {"type": "json_schema", "json_schema":
      {"name": "x", "schema": {"type": "object", "properties": {"z": {"enum": ["a", "b"]}, "a": {"type": "boolean"}},
      "required": ["z", "a"], "additionalProperties": false}}}, "n": 2})");
  const Answer answer = api().post(kPath, body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  for (const ordered_json& choice : answer.body["choices"]) {
    if (choice["finish_reason"] != "stop") continue;
    const ordered_json object = ordered_json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_EQ(object.begin().key(), "z") << "the schema's order";
    EXPECT_TRUE(object["a"].is_boolean());
  }
  expect_stream_equals_whole(api(), body);
}

TEST_F(Chat, WithoutToolsACallIsText) {
  const std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  const Answer answer = api().post(kPath, ask_for(api(), text));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body["choices"][0]["message"]["content"], text);
  ordered_json none = ordered_json::parse(kTools);
  none["tool_choice"] = "none";
  EXPECT_EQ(api().post(kPath, ask_for(api(), text, none.dump())).body["choices"][0]["message"]["content"], text);
}

}  // namespace
}  // namespace eadem::server
