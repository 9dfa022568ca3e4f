#include "server/openai/prepare.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/answer.h"
#include "api/request_json.h"
#include "server/openai/reasoning.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

std::string trimmed(const std::string& text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Where the last message ends, as transformers finds it: templates may trim white space.
Result<std::string> cut_after(const std::string& rendered, const std::string& message) {
  const std::string core = trimmed(message);
  const size_t at = core.empty() ? std::string::npos : rendered.rfind(core);
  if (at == std::string::npos) {
    return Error{"field 'continue_final_message' cannot be honoured: the template does not show the last message"};
  }
  const std::string whole = message.substr(message.find(core));  // with the white space behind it
  const bool kept = rendered.compare(at, whole.size(), whole) == 0;
  return rendered.substr(0, at + (kept ? whole.size() : core.size()));
}

// What holds the text: the client's format, or the tools' own.
Result<void> set_guide(const Context& context, Prepared& prepared) {
  Ask& ask = prepared.ask;
  if (ask.tools.enabled()) {
    if (!context.tool_format) {
      return Error{"field 'tools' cannot be used: the model's template shows no known way of calling them"};
    }
    auto guide = tool_guide(ask.tools, *context.tool_format);
    if (guide && ask.sampling.guide) {
      return Error{"field '" + ask.guide_field + "' cannot be used together with a tool_choice that demands a call"};
    }
    if (guide) ask.sampling.guide = std::move(guide);
  }
  if (!ask.sampling.guide || !context.reasons) return {};
  EADEM_ASSIGN_OR_RETURN(ask.sampling.guide, guide_after_reasoning(*ask.sampling.guide, prepared.thinking));
  return {};
}

// A chat answer without a limit of its own takes what fits behind the prompt and into the KV pool.
void fit_max_tokens(const ModelInfo& info, Request& request) {
  const int64_t pool = int64_t{info.kv_blocks} * 64 + 1;  // the last token's keys and values are never computed
  const int64_t room = std::min(info.max_model_len, pool) - static_cast<int64_t>(request.prompt_token_ids.size());
  request.sampling.max_tokens = static_cast<int>(std::clamp<int64_t>(room, 1, INT32_MAX));
}

Result<void> add_request(const Context& context, api::ParsedRequest parsed, Prepared& prepared) {
  EADEM_ASSIGN_OR_RETURN(Request request, api::resolve(context.engine, std::move(parsed)));
  const Ask& ask = prepared.ask;
  if (ask.chat && !ask.max_tokens_given) fit_max_tokens(context.engine.info(), request);
  request.priority = ask.priority;
  prepared.hashes.push_back(hash_of_tokens(request.prompt_token_ids));
  prepared.requests.push_back(std::move(request));
  return {};
}

Result<void> prepare_chat(const Context& context, Prepared& prepared) {
  Ask& ask = prepared.ask;
  EADEM_ASSIGN_OR_RETURN(const std::string text, render(context.engine, ask.conversation, ask.tools.template_json));
  prepared.thinking = context.reasons && prompt_opens_reasoning(text);
  EADEM_RETURN_IF_ERROR(set_guide(context, prepared));
  api::ParsedRequest parsed;
  parsed.guide_field = ask.guide_field.empty() ? "tools" : ask.guide_field;
  EADEM_ASSIGN_OR_RETURN(parsed.prompt, context.engine.tokenize(text, false));
  parsed.sampling = ask.sampling;
  return add_request(context, std::move(parsed), prepared);
}

Result<void> prepare_completions(const Context& context, Prepared& prepared) {
  Ask& ask = prepared.ask;
  for (TextOrTokens& prompt : ask.prompts) {
    api::ParsedRequest parsed;
    parsed.guide_field = ask.guide_field;
    parsed.sampling = ask.sampling;
    std::string echo;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      EADEM_ASSIGN_OR_RETURN(parsed.prompt, context.engine.tokenize(*text, ask.add_special_tokens));
      if (ask.echo) echo = *text;
    } else {
      auto& tokens = std::get<std::vector<int32_t>>(prompt);
      if (ask.echo && context.engine.info().has_tokenizer) {
        EADEM_ASSIGN_OR_RETURN(echo, context.engine.detokenize(tokens, ask.sampling.skip_special_tokens));
      }
      parsed.prompt = std::move(tokens);
    }
    prepared.echoes.push_back(std::move(echo));
    EADEM_RETURN_IF_ERROR(add_request(context, std::move(parsed), prepared));
  }
  return {};
}

std::string describe(const Context& context, const Prepared& prepared) {
  const SamplingParams& sampling = prepared.requests.front().sampling;
  ordered_json object = {{"fingerprint", context.engine.identity()},
                         {"numerics", context.engine.info().numerics},
                         {"seed", *sampling.seed},
                         {"answer_seeds", ordered_json::array()}};
  for (int i = 0; i < sampling.n; ++i) object["answer_seeds"].push_back(api::seed_of_answer(*sampling.seed, i));
  if (prepared.ask.prompt_list) {
    for (size_t i = 0; i < prepared.requests.size(); ++i) {
      const Request& request = prepared.requests[i];
      object["prompts"].push_back({{"prompt_hash", prepared.hashes[i]},
                                   {"prompt_tokens", request.prompt_token_ids.size()},
                                   {"max_tokens", request.sampling.max_tokens}});
    }
  } else {
    object["prompt_hash"] = prepared.hashes.front();
  }
  object["sampling"] = api::to_json(sampling);
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

Result<std::string> render(const Engine& engine, const ChatPrompt& chat, const std::string& tools) {
  auto rendered = engine.render_chat(chat.messages, tools, chat.kwargs);
  if (!rendered.ok()) return Error{"field 'messages' cannot be rendered: " + rendered.error().message};
  if (!chat.continue_final) return rendered;
  return cut_after(rendered.value(), chat.final_message);
}

std::optional<std::chrono::steady_clock::time_point> deadline_of(const Context& context,
                                                                 std::optional<std::chrono::milliseconds> timeout,
                                                                 std::chrono::steady_clock::time_point arrival) {
  const std::chrono::milliseconds limit = context.options.request_timeout;
  if (limit.count() > 0) timeout = timeout ? std::min(*timeout, limit) : limit;
  if (!timeout) return std::nullopt;
  return arrival + *timeout;
}

Result<Prepared> prepare(const Context& context, Ask ask, std::chrono::steady_clock::time_point arrival) {
  Prepared prepared;
  prepared.ask = std::move(ask);
  if (prepared.ask.receipt && context.options.receipt_key == nullptr) {
    return Error{"field 'receipt' cannot be used: the server has no key to sign with (--receipt-key)"};
  }
  SamplingParams& sampling = prepared.ask.sampling;
  if (!sampling.seed) sampling.seed = api::random_seed();
  EADEM_RETURN_IF_ERROR(prepared.ask.chat ? prepare_chat(context, prepared) : prepare_completions(context, prepared));
  const auto deadline = deadline_of(context, prepared.ask.timeout, arrival);
  for (Request& request : prepared.requests) {
    request.deadline = deadline;
    request.receipt = prepared.ask.receipt.has_value();
    EADEM_RETURN_IF_ERROR(context.service.check(request));
  }
  prepared.eadem = describe(context, prepared);
  return prepared;
}

}  // namespace eadem::server
