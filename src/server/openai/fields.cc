#include "server/openai/fields.h"

#include <algorithm>
#include <utility>

#include "api/request_json.h"
#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

using json = nlohmann::ordered_json;
using enum FieldKind;

constexpr uint32_t kText = kCompletions | kChat;

constexpr std::string_view kBool = R"({"type":"boolean"})";
constexpr std::string_view kString = R"({"type":"string"})";
constexpr std::string_view kObject = R"({"type":"object"})";
constexpr std::string_view kPenalty = R"({"type":"number","minimum":-2,"maximum":2})";
constexpr std::string_view kIds = R"({"type":"array","items":{"$ref":"#/components/schemas/TokenId"}})";
constexpr std::string_view kTop = R"({"type":"integer","minimum":0,"maximum":20})";
constexpr std::string_view kMaxTokens = R"({"type":"integer","minimum":1,"maximum":2147483647})";

constexpr Field kFields[] = {
    {"model", kText | kEmbeddings | kTokenize | kDetokenize | kVerify, kOwn, kString,
     "A name that /v1/models lists; absent or empty: the first of them. Another name: 404."},
    // Prompts.
    {"prompt", kCompletions, kOwn, R"({"$ref":"#/components/schemas/Prompt"})",
     "A text, a list of texts, a list of token ids, or a list of such lists."},
    {"prompt", kTokenize, kOwn, kString, "The text; this or messages."},
    {"messages", kChat | kTokenize, kOwn, R"({"$ref":"#/components/schemas/Messages"})",
     "The conversation, rendered by the model's template."},
    {"input", kEmbeddings, kOwn, R"({"$ref":"#/components/schemas/Prompt"})",
     "A text, a list of texts, a list of token ids, or a list of such lists."},
    {"tokens", kDetokenize, kOwn, kIds, "Token ids."},
    {"tools", kChat | kTokenize, kOwn, R"({"type":"array","items":{"$ref":"#/components/schemas/Tool"}})",
     "Functions that the model may call."},
    {"tool_choice", kChat, kOwn, R"({"$ref":"#/components/schemas/ToolChoice"})",
     "none, auto, required, or one function."},
    {"parallel_tool_calls", kChat, kOwn, kBool, "Several calls in one answer; default true."},
    {"chat_template_kwargs", kChat | kTokenize, kOwn, kObject, "Variables of the template."},
    {"add_generation_prompt", kChat | kTokenize, kOwn, kBool,
     "End the prompt with what opens the assistant's answer; default true."},
    {"continue_final_message", kChat | kTokenize, kOwn, kBool,
     "The answer goes on where the last message ends; needs add_generation_prompt false. Default false."},
    {"add_special_tokens", kCompletions | kTokenize, kOwn, kBool,
     "Put BOS and the like around a text prompt, as the tokenizer says; default true (false for messages)."},
    {"return_token_strs", kTokenize, kOwn, kBool, "Tell how the vocabulary spells each token; default false."},
    // How the answer is given.
    {"stream", kText, kOwn, kBool, "Server-sent events; default false."},
    {"stream_options", kText, kOwn, R"({"$ref":"#/components/schemas/StreamOptions"})", "Only with stream."},
    {"echo", kCompletions, kOwn, kBool, "Put the prompt before the answer, its logprobs too; default false."},
    {"logprobs", kCompletions, kOwn, kTop, "Logprobs of each token and of the k most likely."},
    {"logprobs", kChat, kOwn, kBool, "Logprobs of each token; default false."},
    {"top_logprobs", kChat, kOwn, kTop, "Those of the k most likely tokens too; needs logprobs true."},
    {"return_token_ids", kText, kOwn, kBool, "Give the token ids of prompt and answer; default false."},
    {"return_tokens_as_token_ids", kText, kOwn, kBool,
     "In logprobs, write a token as token_id:N instead of its text; default false."},
    {"receipt", kText, kOwn, R"({"enum":[true,false,"full","hashes"]})",
     "A signed receipt of each answer in eadem.receipts; hashes: without prompt, parameters, tokens. Default false."},
    {"priority", kText | kEmbeddings, kOwn, R"({"type":"integer","minimum":-2147483648,"maximum":2147483647})",
     "Smaller comes first; moves the time of an answer, never the answer. Default 0."},
    {"timeout", kText | kEmbeddings, kOwn, R"({"type":"number","minimum":0.001,"maximum":1000000})",
     "Seconds after which the request ends with 504; at most the server's own limit."},
    // Sampling.
    {"max_tokens", kCompletions, kSampling, R"({"type":"integer","minimum":0,"maximum":2147483647})",
     "Tokens to draw at most; default 16. 0 only with echo: score the prompt."},
    {"max_tokens", kChat, kSampling, kMaxTokens, "Tokens to draw at most; default: what fits behind the prompt."},
    {"max_completion_tokens", kChat, kSampling, kMaxTokens, "The same as max_tokens; not both."},
    {"min_tokens", kText, kSampling, R"({"type":"integer","minimum":0,"maximum":2147483647})",
     "No end-of-text or stop token among so many; at most max_tokens. Default 0."},
    {"temperature", kText, kSampling, R"({"anyOf":[{"const":0},{"type":"number","minimum":1e-5,"maximum":3e38}]})",
     "0: greedy. Default 1."},
    {"top_p", kText, kSampling, R"({"type":"number","minimum":1e-30,"maximum":1})", "Default 1."},
    {"top_k", kText, kSampling, R"({"type":"integer","minimum":-1,"maximum":2147483647})",
     "0 and -1: off, the default."},
    {"min_p", kText, kSampling, R"({"type":"number","minimum":0,"maximum":1})", "Default 0."},
    {"repetition_penalty", kText, kSampling, R"({"type":"number","minimum":1e-30,"maximum":3e38})",
     "Over prompt and answer; default 1."},
    {"presence_penalty", kText, kSampling, kPenalty, "Over the answer; default 0."},
    {"frequency_penalty", kText, kSampling, kPenalty, "Over the answer; default 0."},
    {"logit_bias", kText, kSampling, R"({"$ref":"#/components/schemas/LogitBias"})", "Token id to bias."},
    {"seed", kText, kSampling, R"({"type":"integer","minimum":0,"maximum":18446744073709551615})",
     "Absent: one is drawn and told in eadem.seed."},
    {"n", kText, kSampling, R"({"type":"integer","minimum":1,"maximum":1024})",
     "Answers to each prompt; answers times prompts are at most 1024. Default 1."},
    {"stop", kText, kSampling, R"({"$ref":"#/components/schemas/Stop"})", "The text ends before the first of these."},
    {"stop_token_ids", kText, kSampling, kIds, "Besides the model's own end tokens."},
    {"ignore_eos", kText, kSampling, kBool, "Default false."},
    {"include_stop_str_in_output", kText, kSampling, kBool, "Default false."},
    {"skip_special_tokens", kText, kSampling, kBool, "Default true."},
    {"prompt_logprobs", kText, kSampling, kTop, "Logprobs of the prompt's tokens and of the k most likely."},
    {"logprobs_mode", kText, kSampling, R"({"enum":["raw","processed","raw_logprobs","processed_logprobs"]})",
     "raw (default), or after penalties, temperature, top-k, top-p and min-p."},
    {"golden_token_ids", kText, kSampling, kIds, "The answer follows these tokens, then goes on freely."},
    {"response_format", kText, kSampling, R"({"$ref":"#/components/schemas/ResponseFormat"})",
     "text, json_object, or json_schema. One field at most says what the answer must match."},
    {"structured_outputs", kText, kSampling, R"({"$ref":"#/components/schemas/StructuredOutputs"})",
     "vLLM's name for what the answer must match."},
    {"guided_json", kText, kSampling, R"({"type":"object"})", "The answer matches this JSON schema."},
    {"guided_regex", kText, kSampling, kString, "The answer matches this regular expression."},
    {"guided_grammar", kText, kSampling, kString, "The answer matches this Lark grammar."},
    {"guided_choice", kText, kSampling, R"({"type":"array","minItems":1,"items":{"type":"string","minLength":1}})",
     "The answer is one of these."},
    // Embeddings.
    {"encoding_format", kEmbeddings, kOwn, R"({"enum":["float","base64"]})",
     "base64: of little-endian float32. Default float."},
    {"dimensions", kEmbeddings, kOwn, R"({"type":"integer","minimum":1})", "Only the model's own number is accepted."},
    {"pooling", kEmbeddings, kOwn, R"({"enum":["mean","last"]})", "Of the final hidden states; default mean."},
    // Verification.
    {"eadem", kVerify, kOwn, R"({"$ref":"#/components/schemas/VerifyEadem"})", "The object of the same name."},
    {"prompt_token_ids", kVerify, kOwn, kIds, "As the reply gave them (return_token_ids)."},
    {"token_ids", kVerify, kOwn, kIds, "As the reply gave them (return_token_ids)."},
    {"logprobs", kVerify, kOwn, R"({"type":"array","items":{"type":["number","null"]}})",
     "Of each token, compared as float32 bit for bit; absent: only tokens are compared."},
    {"index", kVerify, kOwn, R"({"type":"integer","minimum":0,"maximum":1023})",
     "Which of the n answers to the prompt; default 0."},
    // Without effect.
    {"user", kText | kEmbeddings, kNoEffect, kString, "No effect."},
    {"metadata", kText, kNoEffect, kObject, "No effect."},
    {"store", kText, kNoEffect, kBool, "No effect: nothing is stored."},
    {"service_tier", kText, kNoEffect, kString, "No effect."},
    {"prompt_cache_key", kText, kNoEffect, kString, "No effect: prefixes are found by their tokens."},
    {"prompt_cache_retention", kText, kNoEffect, kString, "No effect."},
    {"safety_identifier", kText, kNoEffect, kString, "No effect."},
};

constexpr RefusedField kRefused[] = {
    {"best_of", "answers are not ranked here: ask for n answers and choose"},
    {"suffix", "text cannot be filled in before a suffix"},
    {"functions", "use tools"},
    {"function_call", "use tool_choice"},
    {"audio", "answers are text"},
    {"modalities", "answers are text"},
    {"prediction", "predicted outputs are not supported"},
    {"web_search_options", "the server does not search"},
    {"reasoning_effort", "give the template's own variable in chat_template_kwargs"},
    {"verbosity", "give the template's own variable in chat_template_kwargs"},
    {"chat_template", "the template belongs to the model and its fingerprint"},
    {"documents", "put them into messages"},
    {"use_beam_search", "there is no beam search"},
    {"length_penalty", "there is no beam search"},
    {"truncate_prompt_tokens", "prompts are taken whole or refused"},
    {"allowed_token_ids", "use logit_bias or response_format"},
    {"bad_words", "use logit_bias"},
    {"spaces_between_special_tokens", "the tokenizer decides it"},
};

std::string name_of(Endpoint endpoint) {
  switch (endpoint) {
    case kCompletions: return "/v1/completions";
    case kChat: return "/v1/chat/completions";
    case kEmbeddings: return "/v1/embeddings";
    case kTokenize: return "/tokenize";
    case kDetokenize: return "/detokenize";
    case kVerify: return "/v1/verify";
  }
  return {};
}

// A name as a message shows it: one short line.
std::string shown(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 80)) text += c >= 0x20 && c < 0x7f && c != '\'' ? c : '?';
  return text + (name.size() > 80 ? "..." : "");
}

Error refuse(std::string_view name, Endpoint endpoint) {
  const std::string field = "field '" + shown(name) + "' ";
  for (const RefusedField& refused : kRefused) {
    if (refused.name == name) return {field + "is not supported: " + std::string(refused.reason)};
  }
  return {field + "is unknown to " + name_of(endpoint) + ": remove it (docs/server.md lists what there is)"};
}

// What has no effect is still what its schema says, as far as the kind of value goes.
Result<void> check_kind(const json& value, const Field& field) {
  const bool good = field.schema == kString ? value.is_string()
                    : field.schema == kBool ? value.is_boolean()
                                            : value.is_object();
  const char* const wanted = field.schema == kString ? "a string"
                             : field.schema == kBool ? "true or false"
                                                     : "an object";
  if (!good) return must_be(field.name, wanted);
  return {};
}

}  // namespace

std::span<const Field> all_fields() { return kFields; }
std::span<const RefusedField> refused_fields() { return kRefused; }

Error must_be(std::string_view field, std::string_view wanted) {
  return {"field '" + std::string(field) + "' must be " + std::string(wanted)};
}

Result<Body> split_body(std::string_view text, Endpoint endpoint) {
  auto parsed = api::parse_line(text);
  if (!parsed.ok()) return Error{"the body: " + parsed.error().message};
  json& object = parsed.value();
  if (!object.is_object()) return Error{"the body must be a JSON object"};
  Body body;
  for (auto& [name, value] : object.items()) {
    const auto* const field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& f) {
      return f.name == name && (f.endpoints & endpoint) != 0;
    });
    // What is refused may still be null: clients write out what they do not use.
    const bool refused =
        std::any_of(std::begin(kRefused), std::end(kRefused), [&](const RefusedField& f) { return f.name == name; });
    if (field == std::end(kFields) && !(refused && value.is_null())) return refuse(name, endpoint);
    if (value.is_null()) continue;
    switch (field->kind) {
      case kOwn: body.own[name] = std::move(value); break;
      case kSampling: body.sampling[name] = std::move(value); break;
      case kNoEffect: EADEM_RETURN_IF_ERROR(check_kind(value, *field)); break;
    }
  }
  return body;
}

Result<void> read_bool(const json& own, const char* field, bool& out) {
  const auto found = own.find(field);
  if (found == own.end()) return {};
  if (!found->is_boolean()) return must_be(field, "true or false");
  out = found->get<bool>();
  return {};
}

Result<void> read_string(const json& own, const char* field, std::string& out) {
  const auto found = own.find(field);
  if (found == own.end()) return {};
  if (!found->is_string()) return must_be(field, "a string");
  out = found->get<std::string>();
  return {};
}

Result<void> read_int(const json& own, const char* field, int64_t least, int64_t most, int64_t& out) {
  const auto found = own.find(field);
  if (found == own.end()) return {};
  const std::string wanted = "an integer in " + std::to_string(least) + " ... " + std::to_string(most);
  if (!found->is_number_integer()) return must_be(field, wanted);
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return must_be(field, wanted);
  }
  const auto value = found->get<int64_t>();
  if (value < least || value > most) return must_be(field, wanted);
  out = value;
  return {};
}

Result<std::vector<int32_t>> read_token_ids(const json& value, std::string_view field) {
  constexpr std::string_view kWanted = "an array of token ids";
  if (!value.is_array()) return must_be(field, kWanted);
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const json& element : value) {
    const bool fits = element.is_number_unsigned() && element.get<uint64_t>() <= static_cast<uint64_t>(INT32_MAX);
    if (!fits) return must_be(field, kWanted);
    ids.push_back(static_cast<int32_t>(element.get<uint64_t>()));
  }
  return ids;
}

}  // namespace eadem::server
