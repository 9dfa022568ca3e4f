// GET /openapi.json: made from the table of fields, so that it names what the handlers accept.
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/endpoints.h"
#include "server/openai/openapi_schemas.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

ordered_json parse(std::string_view text) { return ordered_json::parse(text); }

ordered_json reference(const std::string& schema) { return {{"$ref", "#/components/schemas/" + schema}}; }

// What an endpoint's body may hold. Null counts as absent.
ordered_json body_schema(const Context& context, Endpoint endpoint, std::vector<std::string> required) {
  ordered_json properties = ordered_json::object();
  for (const Field& field : all_fields()) {
    if ((field.endpoints & endpoint) == 0) continue;
    ordered_json schema = parse(field.schema);
    if (field.name == "model") {
      schema = {{"enum", context.options.model_names}};
      schema["enum"].push_back("");
    }
    if (field.name == "receipt" && context.options.receipt_key == nullptr) schema = {{"const", false}};
    if (field.name == "dimensions") schema = {{"const", context.engine.info().hidden}};
    if (std::find(required.begin(), required.end(), field.name) == required.end()) {
      schema = {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
    }
    schema["description"] = field.about;
    properties[std::string(field.name)] = std::move(schema);
  }
  return {{"type", "object"},
          {"required", std::move(required)},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

ordered_json error_replies(const std::vector<int>& statuses) {
  const auto about = [](int status) {
    switch (status) {
      case 400: return "The body is no JSON, or a field is unknown, unsupported or out of range: error.param names it.";
      case 401: return "The API key is missing or wrong (where the server has one).";
      case 404: return "No such model.";
      case 408: return "The request did not come in whole in time.";
      case 413: return "The body is larger than the server's limit.";
      case 429: return "The queue is full; Retry-After says when to come again.";
      case 503: return "The server is starting or shutting down.";
      case 504: return "The request did not end within its time limit.";
      default: return "The engine failed.";
    }
  };
  ordered_json replies = ordered_json::object();
  for (const int status : statuses) {
    ordered_json reply = {{"description", about(status)},
                          {"content", {{"application/json", {{"schema", reference("Error")}}}}}};
    if (status == 429 || status == 503) {
      reply["headers"]["Retry-After"] = {{"schema", {{"type", "string"}}}, {"description", "Seconds."}};
    }
    replies[std::to_string(status)] = std::move(reply);
  }
  return replies;
}

ordered_json operation(const std::string& id, const std::string& summary, const std::string& reply,
                       const std::vector<int>& errors) {
  ordered_json replies = {{"200", {{"description", "Done."}}}};
  replies["200"]["content"]["application/json"]["schema"] = reference(reply);
  replies.update(error_replies(errors));
  return {{"operationId", id}, {"summary", summary}, {"responses", std::move(replies)}};
}

ordered_json post(ordered_json made, ordered_json body, bool stream = false) {
  made["requestBody"] = {{"required", true}, {"content", {{"application/json", {{"schema", std::move(body)}}}}}};
  if (stream) {
    // Without a type: readers of OpenAPI 3.1 do not agree whether it would be that of the stream or of one event.
    made["responses"]["200"]["content"]["text/event-stream"]["schema"]["description"] =
        "Lines `data: {...}` with an empty line after each, then `data: [DONE]`. Each object is a part of the whole "
        "reply: its choices have text (or delta) instead of the whole. After a failure the last object is an error, "
        "and [DONE] does not come.";
  }
  return made;
}

ordered_json paths_of(const Context& context) {
  const std::vector<int> get = {401, 408, 503}, local = {400, 401, 404, 408, 413, 503};
  const std::vector<int> compute = {400, 401, 404, 408, 413, 429, 500, 503, 504};
  ordered_json paths;
  paths["/v1/models"]["get"] = operation("listModels", "The model under each of its names.", "ModelList", get);
  paths["/v1/models/{name}"]["get"] =
      operation("showModel", "The model under one of its names.", "Model", {400, 401, 404, 408, 503});
  paths["/v1/models/{name}"]["get"]["parameters"] = {
      {{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}, {"minLength", 1}}}}};
  paths["/v1/completions"]["post"] = post(operation("complete", "Continues prompts.", "Completion", compute),
                                          body_schema(context, kCompletions, {"prompt"}), true);
  paths["/v1/chat/completions"]["post"] = post(operation("chat", "Answers a conversation.", "ChatCompletion", compute),
                                               body_schema(context, kChat, {"messages"}), true);
  paths["/v1/embeddings"]["post"] = post(operation("embed", "Vectors of length 1.", "Embeddings", compute),
                                         body_schema(context, kEmbeddings, {"input"}));
  ordered_json tokenize_body = body_schema(context, kTokenize, {});
  // One of them and not both; a null counts as absent, so that `oneOf` would say too much.
  tokenize_body["anyOf"] = {{{"required", {"prompt"}}}, {{"required", {"messages"}}}};
  paths["/tokenize"]["post"] = post(operation("tokenize", "Text to token ids.", "Tokens", local), tokenize_body);
  paths["/detokenize"]["post"] =
      post(operation("detokenize", "Token ids to text.", "Text", local), body_schema(context, kDetokenize, {"tokens"}));
  paths["/tokenizer_info"]["get"] =
      operation("tokenizerInfo", "Special tokens and the chat template.", "TokenizerInfo", get);
  paths["/v1/fingerprint"]["get"] =
      operation("fingerprint", "What equal bits rest on.", "Fingerprint", {400, 401, 408, 503});
  paths["/v1/fingerprint"]["get"]["parameters"] = {
      {{"name", "format"}, {"in", "query"}, {"schema", {{"enum", {"json", "cyclonedx"}}, {"default", "json"}}}}};
  paths["/v1/fingerprint"]["get"]["responses"]["200"]["content"][std::string(kCycloneDx)]["schema"] = {
      {"type", "object"}};
  paths["/v1/verify"]["post"] =
      post(operation("verify", "Runs an answer again and compares the bits.", "Verification", compute),
           body_schema(context, kVerify, {"eadem", "prompt_token_ids", "token_ids"}));
  paths["/openapi.json"]["get"] = operation("openapi", "This description.", "Description", {408, 503});
  paths["/openapi.json"]["get"]["security"] = ordered_json::array();
  return paths;
}

}  // namespace

std::string openapi_json(const Context& context) {
  ordered_json schemas = parse(kSchemas);
  schemas["TokenId"] = {{"type", "integer"}, {"minimum", 0}, {"maximum", context.engine.info().vocab - 1}};
  const ordered_json description = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Eadem"},
        {"version", context.options.version},
        {"summary", "OpenAI-compatible inference whose answers are a function of the request alone, bit for bit."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"security", {{{"key", ordered_json::array()}}, ordered_json::object()}},
      {"paths", paths_of(context)},
      {"components",
       {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}, {"schemas", std::move(schemas)}}}};
  return description.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void openapi(const SharedContext& context, const HttpRequest&, const SharedReply& reply) {
  reply->send(200, kJson, openapi_json(*context));
}

}  // namespace eadem::server
