// The smaller endpoints: models, tokens, fingerprint, embeddings, verification, the description.
#include <cmath>

#include "api.h"
#include "server/openai/fields.h"

namespace eadem::server {
namespace {

class Endpoints : public ApiTest {};

TEST_F(Endpoints, ModelsAreListedUnderEachName) {
  const Answer list = api().get("/v1/models");
  ASSERT_EQ(list.status, 200);
  ASSERT_EQ(list.body["data"].size(), 2u);
  EXPECT_EQ(list.body["data"][1]["id"], "also-tiny");
  EXPECT_EQ(list.body["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(api().get("/v1/models/also-tiny").body["id"], "also-tiny");
  const Answer none = api().get("/v1/models/other");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.body["error"]["code"], "model_not_found");
}

TEST_F(Endpoints, TokensThereAndBack) {
  const Answer tokens = api().post("/tokenize", {{"prompt", "then\n\u00e9"}, {"return_token_strs", true}});
  ASSERT_EQ(tokens.status, 200) << tokens.body;
  EXPECT_EQ(tokens.body["count"], tokens.body["tokens"].size());
  EXPECT_EQ(tokens.body["token_strs"].size(), tokens.body["tokens"].size());
  EXPECT_EQ(api().post("/detokenize", {{"tokens", tokens.body["tokens"]}}).body["prompt"], "then\n\u00e9");
  EXPECT_EQ(api().post("/detokenize", {{"tokens", {1, 5}}}).body["prompt"], "</s>\"") << "special tokens stay";
}

TEST_F(Endpoints, TheTokenizerIsDescribed) {
  const Answer info = api().get("/tokenizer_info");
  EXPECT_EQ(info.body["eos_token"], "</s>");
  EXPECT_EQ(info.body["bos_token"], "<s>");
  EXPECT_TRUE(info.body["pad_token"].is_null());
  EXPECT_EQ(info.body["chat_template"], testing::kTinyTemplate);
}

TEST_F(Endpoints, TheFingerprintTellsItsParts) {
  const Answer print = api().get("/v1/fingerprint");
  EXPECT_EQ(print.body["fingerprint"], api().service->engine().identity());
  for (const char* part : {"weights", "config", "tokenizer", "chat_template", "end_tokens", "numerics", "sampler"}) {
    EXPECT_TRUE(print.body["covers"].contains(part)) << part;
  }
  const Engine& engine = api().service->engine();
  EXPECT_EQ(print.body["covers"], ordered_json::parse(engine.identity_parts()));
  EXPECT_EQ(print.body["deployment"], ordered_json::parse(engine.deployment_parts()));
  EXPECT_EQ(print.body["deployment_digest"], engine.deployment());
  for (const char* part : {"version", "isa", "threads", "max_model_len", "kv_blocks"}) {
    EXPECT_TRUE(print.body["deployment"].contains(part)) << part;
  }
}

TEST_F(Endpoints, TheFingerprintHasALongForm) {
  const auto reply = api().start("GET", "/v1/fingerprint?format=cyclonedx", "");
  ASSERT_TRUE(reply->wait());
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(reply->type(), "application/vnd.cyclonedx+json; version=1.7");
  EXPECT_EQ(reply->body(), api().service->engine().bill_of_materials());
  EXPECT_EQ(ordered_json::parse(reply->body())["specVersion"], "1.7");
  EXPECT_EQ(api().get("/v1/fingerprint?format=json").body["fingerprint"], api().service->engine().identity());
  const Answer bad = api().get("/v1/fingerprint?format=spdx");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.body["error"]["param"], "format");
}

TEST_F(Endpoints, AnAnswerIsVerifiedAndATamperedOneIsNot) {
  // Without a seed: an answer that ends where it likes may have a single token.
  const Answer answer = api().post("/v1/completions", {{"prompt", "the cat"},
                                                       {"n", 3},
                                                       {"max_tokens", 10},
                                                       {"ignore_eos", true},
                                                       {"logprobs", 2},
                                                       {"return_token_ids", true}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  for (int index = 0; index < 3; ++index) {
    const ordered_json& choice = answer.body["choices"][static_cast<size_t>(index)];
    ordered_json claim = {{"eadem", answer.body["eadem"]},
                          {"prompt_token_ids", choice["prompt_token_ids"]},
                          {"token_ids", choice["token_ids"]},
                          {"logprobs", choice["logprobs"]["token_logprobs"]},
                          {"index", index}};
    const Answer good = api().post("/v1/verify", claim);
    ASSERT_EQ(good.status, 200) << good.body;
    EXPECT_EQ(good.body["equal"], true) << good.body;
    EXPECT_EQ(good.body["compared"]["logprobs"], choice["token_ids"].size());
    ordered_json other = claim;
    const double logprob = other["logprobs"][1].get<double>();
    other["logprobs"][1] = double{std::nextafterf(static_cast<float>(logprob), 0.0f)};
    EXPECT_EQ(api().post("/v1/verify", other).body["first_difference"]["what"], "logprob") << "one bit";
    other = claim;
    other["token_ids"][0] = (other["token_ids"][0].get<int>() + 1) % 211;
    const Answer bad = api().post("/v1/verify", other);
    EXPECT_EQ(bad.body["equal"], false);
    EXPECT_EQ(bad.body["first_difference"]["index"], 0);
    EXPECT_EQ(bad.body["first_difference"]["computed"], claim["token_ids"][0]);
    other = claim;
    other["token_ids"].erase(other["token_ids"].size() - 1);
    other.erase("logprobs");
    EXPECT_EQ(api().post("/v1/verify", other).body["equal"], false) << "an answer cut short";
    other = claim;
    other["prompt_token_ids"].push_back(5);
    EXPECT_EQ(api().post("/v1/verify", other).status, 400);
    other = claim;
    other["eadem"]["fingerprint"] = std::string(64, '0');
    EXPECT_EQ(api().post("/v1/verify", other).body["error"]["param"], "eadem.fingerprint");
  }
}

TEST_F(Endpoints, EmbeddingsAreVectorsOfLengthOne) {
  const Answer floats = api().post("/v1/embeddings", {{"input", {"the cat", "a"}}});
  ASSERT_EQ(floats.status, 200) << floats.body;
  ASSERT_EQ(floats.body["data"].size(), 2u);
  const auto values = floats.body["data"][0]["embedding"].get<std::vector<float>>();
  ASSERT_EQ(values.size(), 72u);
  double square = 0;
  for (const float value : values) square += double{value} * double{value};
  EXPECT_NEAR(square, 1.0, 1e-5);
  const Answer coded = api().post("/v1/embeddings", {{"input", "the cat"}, {"encoding_format", "base64"}});
  EXPECT_EQ(coded.body["data"][0]["embedding"].get<std::string>().size(), 72u * 4 / 3 * 4);
  const Answer last = api().post("/v1/embeddings", {{"input", "the cat"}, {"pooling", "last"}});
  EXPECT_NE(last.body["data"][0]["embedding"], floats.body["data"][0]["embedding"]);
}

// Every reference of the description resolves, and it names exactly the fields that the handlers take.
TEST_F(Endpoints, TheDescriptionNamesWhatTheHandlersTake) {
  const Answer described = api().get("/openapi.json");
  ASSERT_EQ(described.status, 200);
  const ordered_json& schemas = described.body["components"]["schemas"];
  const std::string text = described.body.dump(), prefix = "#/components/schemas/";
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    const std::string name = text.substr(at + prefix.size(), text.find('"', at) - at - prefix.size());
    EXPECT_TRUE(schemas.contains(name)) << name;
  }
  const std::pair<const char*, Endpoint> places[] = {{"/v1/completions", kCompletions}, {"/v1/chat/completions", kChat},
                                                     {"/v1/embeddings", kEmbeddings},   {"/tokenize", kTokenize},
                                                     {"/detokenize", kDetokenize},      {"/v1/verify", kVerify}};
  for (const auto& [path, endpoint] : places) {
    const ordered_json& body =
        described.body["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    EXPECT_FALSE(body["additionalProperties"].get<bool>());
    for (const auto& [name, schema] : body["properties"].items()) {
      const ordered_json given = {{name, nullptr}};
      EXPECT_TRUE(split_body(given.dump(), endpoint).ok()) << path << " " << name;
    }
    EXPECT_FALSE(split_body(R"({"nothing": 1})", endpoint).ok());
    for (const RefusedField& refused : refused_fields()) {
      EXPECT_FALSE(body["properties"].contains(std::string(refused.name))) << refused.name;
    }
  }
}

}  // namespace
}  // namespace eadem::server
