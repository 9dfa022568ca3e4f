#include "server/openai/ask.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/guide_json.h"
#include "api/request_json.h"

namespace eadem::server {
namespace {

using json = nlohmann::ordered_json;

Result<void> parse_stream(const json& own, Ask& ask) {
  EADEM_RETURN_IF_ERROR(read_bool(own, "stream", ask.stream));
  const auto options = own.find("stream_options");
  if (options == own.end()) return {};
  if (!options->is_object()) return must_be("stream_options", "an object");
  if (!ask.stream) return Error{"field 'stream_options' needs \"stream\": true"};
  for (const auto& [name, value] : options->items()) {
    bool* const out = name == "include_usage"            ? &ask.include_usage
                      : name == "continuous_usage_stats" ? &ask.continuous_usage
                                                         : nullptr;
    bool ignored = false;  // include_obfuscation pads OpenAI's own streams; there is nothing to switch off here
    if (out == nullptr && name != "include_obfuscation") {
      return Error{"field 'stream_options' may hold include_usage and continuous_usage_stats alone"};
    }
    if (value.is_null()) continue;
    if (!value.is_boolean()) return Error{"field 'stream_options' must be an object of true and false"};
    (out == nullptr ? ignored : *out) = value.get<bool>();
  }
  return {};
}

Result<void> check_top(const json& fields, const char* field) {
  int64_t ignored = 0;
  return read_int(fields, field, 0, kMaxLogprobs, ignored);
}

// true, false, "full" or "hashes".
Result<void> parse_receipt(const json& own, Ask& ask) {
  const auto found = own.find("receipt");
  if (found == own.end() || *found == json(false)) return {};
  if (*found != json(true) && *found != json("full") && *found != json("hashes")) {
    return must_be("receipt", "true, false, \"full\" or \"hashes\"");
  }
  ask.receipt = *found == json("hashes") ? contract::ReceiptContent::kHashes : contract::ReceiptContent::kFull;
  return {};
}

// What both endpoints share: sampling, and how the answer is given.
Result<void> parse_common(Body& body, const SamplingParams& defaults, Ask& ask) {
  EADEM_RETURN_IF_ERROR(read_string(body.own, "model", ask.model));
  EADEM_RETURN_IF_ERROR(parse_stream(body.own, ask));
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "return_token_ids", ask.return_token_ids));
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "return_tokens_as_token_ids", ask.tokens_as_ids));
  EADEM_RETURN_IF_ERROR(parse_receipt(body.own, ask));
  EADEM_RETURN_IF_ERROR(parse_schedule(body.own, ask.priority, ask.timeout));
  EADEM_RETURN_IF_ERROR(check_top(body.sampling, "prompt_logprobs"));
  ask.max_tokens_given = body.sampling.contains("max_tokens") || body.sampling.contains("max_completion_tokens");
  if (body.sampling.contains("max_tokens") && body.sampling.contains("max_completion_tokens")) {
    return Error{"field 'max_completion_tokens' is the same as max_tokens: give one of them"};
  }
  EADEM_ASSIGN_OR_RETURN(ask.sampling, api::parse_sampling(body.sampling, defaults));
  ask.guide_field = api::guide_field(body.sampling);
  ask.prompt_logprobs = ask.sampling.prompt_logprobs >= 0;
  ask.prompt_top = std::max(ask.sampling.prompt_logprobs, 0);
  ask.sampling.logprobs = ask.logprobs;
  const auto answers = static_cast<int64_t>(ask.chat ? 1 : ask.prompts.size()) * ask.sampling.n;
  if (answers > kMaxAnswers) {
    return Error{"field 'n' must be smaller: prompts times n are " + std::to_string(answers) + ", and at most " +
                 std::to_string(kMaxAnswers) + " answers are given to one request"};
  }
  return {};
}

}  // namespace

Result<std::vector<TextOrTokens>> parse_prompts(const json& value, std::string_view field, bool& list) {
  const std::string wanted = "a text, a list of texts, a list of token ids, or a list of such lists";
  list = false;
  std::vector<TextOrTokens> prompts;
  if (value.is_string()) {
    prompts.emplace_back(value.get<std::string>());
    return prompts;
  }
  if (!value.is_array() || value.empty()) return must_be(field, wanted + "; not empty");
  if (value.front().is_number()) {
    EADEM_ASSIGN_OR_RETURN(auto ids, read_token_ids(value, field));
    prompts.emplace_back(std::move(ids));
    return prompts;
  }
  list = true;
  if (static_cast<int64_t>(value.size()) > kMaxAnswers) {
    return must_be(field, "a list of at most " + std::to_string(kMaxAnswers) + " prompts");
  }
  const bool texts = value.front().is_string();
  for (const json& prompt : value) {
    if (prompt.is_string() != texts || !(texts || prompt.is_array())) return must_be(field, wanted);
    if (texts) {
      prompts.emplace_back(prompt.get<std::string>());
    } else {
      EADEM_ASSIGN_OR_RETURN(auto ids, read_token_ids(prompt, field));
      prompts.emplace_back(std::move(ids));
    }
  }
  return prompts;
}

Result<void> parse_schedule(const json& own, int& priority, std::optional<std::chrono::milliseconds>& timeout) {
  int64_t value = priority;
  EADEM_RETURN_IF_ERROR(read_int(own, "priority", INT32_MIN, INT32_MAX, value));
  priority = static_cast<int>(value);
  const auto found = own.find("timeout");
  if (found == own.end()) return {};
  const double seconds = found->is_number() ? found->get<double>() : 0.0;
  if (!(seconds >= 0.001 && seconds <= 1e6)) return must_be("timeout", "a number of seconds in 0.001 ... 1000000");
  timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000.0));
  return {};
}

Result<Ask> parse_completion(std::string_view text, const SamplingParams& defaults) {
  EADEM_ASSIGN_OR_RETURN(Body body, split_body(text, kCompletions));
  Ask ask;
  const auto prompt = body.own.find("prompt");
  if (prompt == body.own.end()) return Error{"field 'prompt' is missing"};
  EADEM_ASSIGN_OR_RETURN(ask.prompts, parse_prompts(*prompt, "prompt", ask.prompt_list));
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "echo", ask.echo));
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "add_special_tokens", ask.add_special_tokens));
  int64_t logprobs = -1;
  EADEM_RETURN_IF_ERROR(read_int(body.own, "logprobs", 0, kMaxLogprobs, logprobs));
  ask.logprobs = static_cast<int>(logprobs);
  EADEM_RETURN_IF_ERROR(parse_common(body, defaults, ask));
  int& scored = ask.sampling.prompt_logprobs;
  if (ask.echo) scored = std::max(scored, ask.logprobs);
  if (ask.sampling.max_tokens == 0) {
    if (!ask.echo && !ask.prompt_logprobs) {
      return Error{"field 'max_tokens' must be at least 1, or 0 together with echo (score the prompt)"};
    }
    scored = std::max(scored, 0);  // the engine computes the prompt alone only to score it
  }
  return ask;
}

Result<Ask> parse_chat(std::string_view text, const SamplingParams& defaults) {
  EADEM_ASSIGN_OR_RETURN(Body body, split_body(text, kChat));
  Ask ask;
  ask.chat = true;
  EADEM_ASSIGN_OR_RETURN(ask.conversation, parse_conversation(body.own));
  EADEM_ASSIGN_OR_RETURN(ask.tools, parse_tools(body.own));
  bool logprobs = false;
  EADEM_RETURN_IF_ERROR(read_bool(body.own, "logprobs", logprobs));
  int64_t top = logprobs ? 0 : -1;
  EADEM_RETURN_IF_ERROR(read_int(body.own, "top_logprobs", 0, kMaxLogprobs, top));
  if (!logprobs && top > 0) return Error{"field 'top_logprobs' needs \"logprobs\": true"};
  ask.logprobs = logprobs ? static_cast<int>(top) : -1;
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    int64_t ignored = 0;
    EADEM_RETURN_IF_ERROR(read_int(body.sampling, field, 1, INT32_MAX, ignored));
  }
  EADEM_RETURN_IF_ERROR(parse_common(body, defaults, ask));
  return ask;
}

}  // namespace eadem::server
