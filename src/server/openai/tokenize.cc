// POST /tokenize and /detokenize, GET /tokenizer_info, in vLLM's shapes.
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/ask.h"
#include "server/openai/endpoints.h"
#include "server/openai/prepare.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<std::vector<int32_t>> tokens_of(const Context& context, const Body& body) {
  const bool chat = body.own.contains("messages"), text = body.own.contains("prompt");
  if (chat == text) return Error{"field 'prompt' or messages must be given, one of them"};
  bool special = !chat;
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "add_special_tokens", special));
  std::string prompt;
  if (chat) {
    EADEM_ASSIGN_OR_RETURN(const ChatPrompt conversation, parse_conversation(body.own));
    EADEM_ASSIGN_OR_RETURN(const Tools tools, parse_tools(body.own));
    EADEM_ASSIGN_OR_RETURN(prompt, render(context.engine, conversation, tools.template_json));
  } else {
    for (const char* field : {"tools", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"}) {
      if (body.own.contains(field)) return Error{"field '" + std::string(field) + "' goes with messages"};
    }
    EADEM_RETURN_IF_ERROR(read_string(body.own, "prompt", prompt));
  }
  auto tokens = context.engine.tokenize(prompt, special);
  if (!tokens.ok())
    return Error{"field '" + std::string(chat ? "messages" : "prompt") + "': " + tokens.error().message};
  return tokens;
}

Result<ordered_json> tokenize_body(const Context& context, const Body& body) {
  EADEM_ASSIGN_OR_RETURN(const auto tokens, tokens_of(context, body));
  bool spelled = false;
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "return_token_strs", spelled));
  ordered_json reply = {{"count", tokens.size()},
                        {"max_model_len", context.engine.info().max_model_len},
                        {"tokens", tokens},
                        {"token_strs", nullptr}};
  if (spelled) {
    reply["token_strs"] = ordered_json::array();
    for (const int32_t token : tokens) reply["token_strs"].push_back(std::string(context.engine.token_text(token)));
  }
  return reply;
}

Result<ordered_json> detokenize_body(const Context& context, const Body& body) {
  const auto given = body.own.find("tokens");
  if (given == body.own.end()) return Error{"field 'tokens' is missing"};
  EADEM_ASSIGN_OR_RETURN(const auto tokens, read_token_ids(*given, "tokens"));
  for (const int32_t token : tokens) {
    if (token >= context.engine.info().vocab) {
      return must_be("tokens", "token ids of the model, 0 to " + std::to_string(context.engine.info().vocab - 1));
    }
  }
  auto text = context.engine.detokenize(tokens, false);
  if (!text.ok()) return Error{"field 'tokens': " + text.error().message};
  return ordered_json{{"prompt", std::move(text).value()}};
}

void answer(const SharedContext& context, const HttpRequest& request, const SharedReply& reply, Endpoint endpoint,
            Result<ordered_json> (*make)(const Context&, const Body&)) {
  auto body = split_body(request.body, endpoint);
  if (!body.ok()) return refuse(*context, *reply, bad_request(body.error().message));
  std::string model;
  if (const auto read = read_string(body.value().own, "model", model); !read.ok()) {
    return refuse(*context, *reply, bad_request(read.error().message));
  }
  if (!context->serves(model)) return refuse(*context, *reply, model_not_found(model));
  const auto made = make(*context, body.value());
  if (!made.ok()) return refuse(*context, *reply, bad_request(made.error().message));
  reply->send(200, kJson, text_of(made.value()));
}

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

}  // namespace

void tokenize(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  answer(context, request, reply, kTokenize, tokenize_body);
}

void detokenize(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  answer(context, request, reply, kDetokenize, detokenize_body);
}

void tokenizer_info(const SharedContext& context, const HttpRequest&, const SharedReply& reply) {
  const TextInfo& text = context->engine.text();
  const ModelInfo& info = context->engine.info();
  const ordered_json object = {{"tokenizer_class", info.has_tokenizer ? ordered_json("eadem") : ordered_json(nullptr)},
                               {"bos_token", text_or_null(text.bos_token)},
                               {"eos_token", text_or_null(text.eos_token)},
                               {"unk_token", text_or_null(text.unk_token)},
                               {"pad_token", text_or_null(text.pad_token)},
                               {"eos_token_ids", info.eos_token_ids},
                               {"vocab_size", info.vocab},
                               {"model_max_length", info.max_model_len},
                               {"chat_template", text_or_null(text.chat_template)}};
  reply->send(200, kJson, text_of(object));
}

}  // namespace eadem::server
