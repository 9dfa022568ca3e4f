// /v1/completions: shapes, order of answers, echo and logprobs, streams equal to whole replies.
#include <future>

#include "api.h"

namespace eadem::server {
namespace {

class Completions : public ApiTest {};

ordered_json ask(const std::string& extra = "{}") {
  ordered_json body = {{"prompt", "the cat sat on the"}, {"max_tokens", 12}, {"seed", 7}, {"ignore_eos", true}};
  body.update(ordered_json::parse(extra));
  return body;
}

// A stream's chunks joined to what the whole reply has in its choices.
ordered_json joined(const std::vector<ordered_json>& chunks) {
  ordered_json choices = ordered_json::array();
  std::map<int, ordered_json> by_index;
  for (const ordered_json& chunk : chunks) {
    for (const ordered_json& part : chunk.at("choices")) {
      ordered_json& choice = by_index[part["index"].get<int>()];
      if (choice.is_null()) choice = {{"index", part["index"]}, {"text", ""}, {"logprobs", nullptr}};
      EXPECT_FALSE(choice.contains("finish_reason")) << "a chunk behind the last";
      choice["text"] = choice["text"].get<std::string>() + part["text"].get<std::string>();
      if (!part["logprobs"].is_null()) {
        if (choice["logprobs"].is_null()) choice["logprobs"] = ordered_json::object();
        for (const auto& [name, list] : part["logprobs"].items()) {
          for (const ordered_json& entry : list) choice["logprobs"][name].push_back(entry);
        }
      }
      for (const char* name : {"prompt_logprobs", "prompt_token_ids", "token_ids"}) {
        if (!part.contains(name)) continue;
        for (const ordered_json& entry : part[name]) choice[name].push_back(entry);
      }
      if (!part["finish_reason"].is_null()) choice["finish_reason"] = part["finish_reason"];
    }
  }
  for (auto& [index, choice] : by_index) choices.push_back(std::move(choice));
  return choices;
}

bool same_choices(const ordered_json& a, const ordered_json& b) { return nlohmann::json(a) == nlohmann::json(b); }

TEST_F(Completions, HaveOpenAIsShape) {
  const Answer answer = api().post("/v1/completions", ask());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const ordered_json& body = answer.body;
  EXPECT_EQ(body["id"], "cmpl-r1");
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["system_fingerprint"], api().service->engine().identity());
  ASSERT_EQ(body["choices"].size(), 1u);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["usage"]["completion_tokens"], 12);
  EXPECT_EQ(body["usage"]["total_tokens"].get<int>(), body["usage"]["prompt_tokens"].get<int>() + 12);
  EXPECT_EQ(body["eadem"]["seed"], 7);
  EXPECT_EQ(body["eadem"]["sampling"]["top_k"], 150) << "generation_config.json is a default";
  EXPECT_EQ(body["eadem"]["sampling"]["max_tokens"], 12);
  EXPECT_EQ(body["eadem"]["prompt_hash"].get<std::string>().size(), 64u);
}

TEST_F(Completions, AnUnseededAnswerTellsItsSeedAndCanBeHadAgain) {
  ordered_json body = ask();
  body.erase("seed");
  const Answer first = api().post("/v1/completions", body);
  ASSERT_EQ(first.status, 200) << first.body;
  body["seed"] = first.body["eadem"]["seed"];
  const Answer again = api().post("/v1/completions", body);
  EXPECT_EQ(first.body["choices"], again.body["choices"]);
  body["seed"] = body["seed"].get<uint64_t>() + 1;
  EXPECT_NE(first.body["choices"], api().post("/v1/completions", body).body["choices"]) << "the control";
}

TEST_F(Completions, PromptsComeInEachOfFourShapes) {
  const Answer text = api().post("/v1/completions", ask(R"({"return_token_ids": true})"));
  const ordered_json ids = text.body["choices"][0]["prompt_token_ids"];
  for (const ordered_json& prompt :
       {ordered_json(ids), ordered_json::array({ids}), ordered_json::array({"the cat sat on the"})}) {
    ordered_json body = ask(R"({"return_token_ids": true})");
    body["prompt"] = prompt;
    EXPECT_EQ(api().post("/v1/completions", body).body["choices"], text.body["choices"]) << prompt;
  }
}

// Prompts of unequal length, two answers each: every one is what it is alone, in the order of the prompts.
TEST_F(Completions, BatchesAreAnsweredPromptByPrompt) {
  const std::vector<std::string> prompts = {"a", "the cat sat on the mat and on the mat it sat", "on"};
  ordered_json body = ask(R"({"n": 2, "logprobs": 2, "return_token_ids": true})");
  body["prompt"] = prompts;
  const Answer batch = api().post("/v1/completions", body);
  ASSERT_EQ(batch.status, 200) << batch.body;
  ASSERT_EQ(batch.body["choices"].size(), 6u);
  EXPECT_EQ(batch.body["eadem"]["prompts"].size(), 3u);
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t k = 0; k < 2; ++k) {
      ordered_json alone = ask(R"({"logprobs": 2, "return_token_ids": true})");
      alone["prompt"] = prompts[i];
      alone["seed"] = batch.body["eadem"]["answer_seeds"][k];
      ordered_json want = api().post("/v1/completions", alone).body["choices"][0];
      want["index"] = 2 * i + k;
      EXPECT_EQ(batch.body["choices"][2 * i + k], want) << i << " " << k;
    }
  }
  EXPECT_NE(batch.body["choices"][0]["text"], batch.body["choices"][1]["text"]) << "the control";
}

TEST_F(Completions, StreamsJoinToTheWholeReply) {
  const char* const cases[] = {
      "{}",
      R"({"logprobs": 0})",
      R"({"logprobs": 5, "n": 3})",
      R"({"echo": true})",
      R"({"echo": true, "logprobs": 3, "prompt_logprobs": 1})",
      R"({"echo": true, "logprobs": 1, "max_tokens": 0})",
      R"({"echo": true, "max_tokens": 0})",
      R"({"max_tokens": 60, "stop": ["e", "ab"], "logprobs": 1, "ignore_eos": false})",
      R"({"max_tokens": 60, "stop": ["t"], "include_stop_str_in_output": true, "logprobs": 1, "n": 2})",
      R"({"max_tokens": 40, "return_token_ids": true, "skip_special_tokens": false, "temperature": 2.5, "top_k": -1})",
      R"({"prompt": ["a", "the mat"], "n": 2, "logprobs": 2, "echo": true, "return_tokens_as_token_ids": true})",
      R"({"golden_token_ids": [100, 101, 102, 103, 104, 100, 0, 101, 5], "logprobs": 2})",
      R"({"temperature": 0, "repetition_penalty": 1.2, "presence_penalty": 0.5, "logit_bias": {"9": 3.5}})",
  };
  for (const char* const extra : cases) {
    const Answer whole = api().post("/v1/completions", ask(extra));
    ASSERT_EQ(whole.status, 200) << extra << whole.body;
    const auto chunks = api().stream("/v1/completions", ask(extra));
    EXPECT_TRUE(same_choices(joined(chunks), whole.body["choices"])) << extra << "\n"
                                                                     << joined(chunks) << "\n"
                                                                     << whole.body["choices"];
    EXPECT_EQ(chunks.front()["eadem"], whole.body["eadem"]) << extra;
    EXPECT_EQ(chunks.front()["object"], "text_completion");
  }
  const ordered_json other = joined(api().stream("/v1/completions", ask(R"({"seed": 8})")));
  EXPECT_FALSE(same_choices(other, api().post("/v1/completions", ask()).body["choices"])) << "the control";
}

TEST_F(Completions, UsageIsStreamedWhereAsked) {
  auto chunks = api().stream("/v1/completions", ask(R"({"stream_options": {"include_usage": true}})"));
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 12);
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_TRUE(chunks.front()["usage"].is_null());
  chunks = api().stream("/v1/completions", ask(R"({"stream_options":
      {"include_usage": true, "continuous_usage_stats": true}, "logprobs": 0})"));
  EXPECT_EQ(chunks.front()["usage"]["completion_tokens"], 1);
  chunks = api().stream("/v1/completions", ask());
  EXPECT_FALSE(chunks.front().contains("usage"));
}

TEST_F(Completions, AnAnswerIsHeldToItsGuide) {
  const Answer choice = api().post("/v1/completions", ask(R"({"guided_choice": ["then", "cats"], "max_tokens": 40})"));
  ASSERT_EQ(choice.status, 200) << choice.body;
  const std::string text = choice.body["choices"][0]["text"];
  EXPECT_TRUE(text == "then" || text == "cats") << text;
  EXPECT_EQ(choice.body["choices"][0]["finish_reason"], "stop");
  const Answer again = api().post("/v1/completions", ask(R"({"structured_outputs": {"choice": ["then", "cats"]},
                                                             "max_tokens": 40})"));
  EXPECT_EQ(again.body["choices"], choice.body["choices"]);
}

// What lm-eval reads: the prompt's logprobs by echo, the greedy answer beside them.
TEST_F(Completions, EchoWithLogprobsScoresThePrompt) {
  const Answer scored =
      api().post("/v1/completions", ask(R"({"echo": true, "logprobs": 1, "max_tokens": 1, "temperature": 0,
                                 "return_token_ids": true})"));
  ASSERT_EQ(scored.status, 200) << scored.body;
  const ordered_json& choice = scored.body["choices"][0];
  const ordered_json& logprobs = choice["logprobs"];
  const size_t prompt = choice["prompt_token_ids"].size();
  ASSERT_EQ(logprobs["token_logprobs"].size(), prompt + 1);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  std::string text;
  for (size_t i = 0; i <= prompt; ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size()) << i;
    text += logprobs["tokens"][i].get<std::string>();
    if (i == 0) continue;
    double best = -1e9;
    for (const ordered_json& value : logprobs["top_logprobs"][i]) best = std::max(best, value.get<double>());
    EXPECT_GE(best, logprobs["token_logprobs"][i].get<double>());
    EXPECT_TRUE(logprobs["top_logprobs"][i].contains(logprobs["tokens"][i].get<std::string>()));
  }
  EXPECT_EQ(choice["text"], text);
  // The same numbers as the answer's own, where the answer is that text.
  const Answer drawn = api().post("/v1/completions", ask(R"({"prompt": "the cat sat on th", "logprobs": 1,
      "golden_token_ids": [72], "max_tokens": 1})"));
  ASSERT_EQ(drawn.status, 200) << drawn.body;
}

TEST_F(Completions, LogprobsAreTheFloatsOfTheEngine) {
  const ordered_json body = ask(R"({"logprobs": 3, "return_token_ids": true})");
  const Answer answer = api().post("/v1/completions", body);
  Request request;
  request.prompt_token_ids = answer.body["choices"][0]["prompt_token_ids"].get<std::vector<int32_t>>();
  request.sampling = api().service->engine().default_sampling();
  request.sampling.seed = 7, request.sampling.ignore_eos = true, request.sampling.max_tokens = 12;
  request.sampling.logprobs = 3;
  std::promise<std::vector<Completion>> done;
  Callbacks callbacks;
  callbacks.on_done = [&](std::vector<Completion> answers) { done.set_value(std::move(answers)); };
  ASSERT_EQ(api().service->submit(request, std::move(callbacks)).admission, Admission::kAccepted);
  const Completion want = done.get_future().get().front();
  const ordered_json& logprobs = answer.body["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["token_logprobs"].size(), want.tokens.size());
  for (size_t i = 0; i < want.tokens.size(); ++i) {
    EXPECT_EQ(answer.body["choices"][0]["token_ids"][i], want.tokens[i].token);
    EXPECT_EQ(logprobs["token_logprobs"][i].get<float>(), want.tokens[i].logprob);
  }
}

TEST_F(Completions, BrokenCharactersAreNamedByTheirBytes) {
  const Answer answer =
      api().post("/v1/completions", ask(R"({"golden_token_ids": [100, 101, 102, 103, 104, 100], "max_tokens": 6,
                                 "logprobs": 0})"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const ordered_json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["text"], "\u00e9\u20ac\ufffd");
  EXPECT_EQ(choice["logprobs"]["tokens"][0], "bytes:\\xc3");
  EXPECT_EQ(choice["logprobs"]["text_offset"], ordered_json({0, 1, 1, 2, 2, 2}));
}

TEST_F(Completions, AnswersDoNotDependOnTheirCompany) {
  const Answer alone = api().post("/v1/completions", ask(R"({"logprobs": 2})"));
  std::vector<std::shared_ptr<FakeReply>> replies;
  const uint64_t mixed = api().service->stats().counters.mixed_steps;
  for (int i = 0; i < 12; ++i) {
    const std::string extra = i % 3 == 0 ? R"({"logprobs": 2})" : R"({"seed": 5, "max_tokens": 30})";
    replies.push_back(api().start("POST", "/v1/completions", ask(extra).dump()));
  }
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i]->wait());
    if (i % 3 != 0) continue;
    EXPECT_EQ(ordered_json::parse(replies[i]->body())["choices"], alone.body["choices"]);
  }
  EXPECT_GT(api().service->stats().counters.mixed_steps, mixed) << "they ran together";
}

}  // namespace
}  // namespace eadem::server
