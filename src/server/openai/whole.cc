// Replies in one piece, and what streamed ones share with them.
#include <nlohmann/json.hpp>
#include <utility>

#include "api/receipts.h"
#include "server/openai/generation.h"
#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

std::string ids_of(const std::vector<SampledToken>& tokens) {
  std::string out = "[";
  for (const SampledToken& token : tokens) {
    if (out.size() > 1) out += ',';
    append_integer(out, token.token);
  }
  return out + "]";
}

}  // namespace

std::string_view Generation::finish_reason_of(const Choice& choice, const Completion& answer) {
  return choice.text.called() ? "tool_calls" : to_string(answer.finish_reason);
}

// What a choice tells of its prompt besides the text; begins with a comma, or empty.
std::string Generation::prompt_members(const Choice& choice, const std::vector<SampledToken>& prompt) const {
  std::string out;
  if (ask_.prompt_logprobs) {
    // The engine scores for the greater of what echo and this ask_.
    out += ",\"prompt_logprobs\":" + prompt_logprobs_json(style(ask_.prompt_top), prompt);
  }
  if (ask_.return_token_ids) {
    const Request& request = requests_[static_cast<size_t>(choice.prompt)];
    out += ",\"prompt_token_ids\":" + nlohmann::json(request.prompt_token_ids).dump();
  }
  return out;
}

std::string Generation::usage_json(bool final) const {
  std::string out = "{\"prompt_tokens\":" + std::to_string(prompt_tokens_) +
                    ",\"completion_tokens\":" + std::to_string(completion_tokens_) +
                    ",\"total_tokens\":" + std::to_string(prompt_tokens_ + completion_tokens_);
  if (!final) return out + "}";
  return out + ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(cached_tokens_) +
         "},\"completion_tokens_details\":{\"accepted_prediction_tokens\":" + std::to_string(accepted_tokens_) +
         ",\"rejected_prediction_tokens\":" + std::to_string(drafted_tokens_ - accepted_tokens_) + "}}";
}

std::string Generation::whole_logprobs(Choice& choice, const Completion& answer) {
  if (ask_.logprobs < 0) return "null";
  if (ask_.chat) {
    for (const SampledToken& token : answer.tokens) choice.chat_logprobs.add(token);
    return choice.chat_logprobs.take();
  }
  if (ask_.echo) {
    for (size_t i = 0; i < answer.prompt_tokens.size(); ++i) {
      choice.completion_logprobs.add(answer.prompt_tokens[i], i == 0);
    }
  }
  for (const SampledToken& token : answer.tokens) choice.completion_logprobs.add(token);
  return choice.completion_logprobs.take();
}

std::string Generation::whole_choice(Choice& choice, const Completion& answer) {
  std::string out = "{\"index\":" + std::to_string(choice.index);
  if (ask_.chat) {
    AnswerText::Delta delta = choice.text.feed(answer.text);
    AnswerText::Delta rest = choice.text.finish();
    delta.reasoning += rest.reasoning;
    delta.content += rest.content;
    for (ToolCall& call : rest.calls) delta.calls.push_back(std::move(call));
    out += ",\"message\":{\"role\":\"assistant\",";
    const std::string members = message_members(delta, false);
    if (delta.content.empty()) out += delta.calls.empty() ? "\"content\":\"\"," : "\"content\":null,";
    out += members + (members.empty() ? "" : ",") + "\"refusal\":null}";
  } else {
    out += ",\"text\":";
    append_string(out, (ask_.echo ? echoes_[static_cast<size_t>(choice.prompt)] : "") + answer.text);
  }
  out += ",\"logprobs\":" + whole_logprobs(choice, answer) + ",\"finish_reason\":";
  append_string(out, finish_reason_of(choice, answer));
  out += prompt_members(choice, answer.prompt_tokens);
  if (ask_.return_token_ids) out += ",\"token_ids\":" + ids_of(answer.tokens);
  return out + "}";
}

std::string Generation::receipt_of(const Choice& choice, const Completion& answer) const {
  if (!api::has_receipt(answer)) return "null";
  const Request& request = requests_[static_cast<size_t>(choice.prompt)];
  context_->metrics.receipt();
  return contract::seal_receipt(api::make_receipt(context_->engine, request, answer), *ask_.receipt,
                                *context_->options.receipt_key);
}

std::string Generation::eadem_with(const std::string& receipts) const {
  if (receipts.empty()) return eadem_;
  return eadem_.substr(0, eadem_.size() - 1) + ",\"receipts\":[" + receipts + "]}";
}

std::string Generation::whole_reply() {
  std::string out = head_ + ",\"choices\":[", receipts;
  for (size_t prompt = 0; prompt < answers_.size(); ++prompt) {
    for (const Completion& answer : answers_[prompt]) {
      if (out.back() != '[') out += ',';
      Choice& of = choice(static_cast<int>(prompt), answer.index);
      out += whole_choice(of, answer);
      if (ask_.receipt) receipts += (receipts.empty() ? "" : ",") + receipt_of(of, answer);
    }
  }
  return out + "],\"usage\":" + usage_json(true) + ",\"eadem\":" + eadem_with(receipts) + "}";
}

}  // namespace eadem::server
