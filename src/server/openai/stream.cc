// Replies as server-sent events: a chunk for each token that brings text, logprobs or an id.
#include <algorithm>
#include <utility>

#include "server/openai/generation.h"
#include "server/openai/json_text.h"

namespace eadem::server {

void Generation::write_chunk(const Choice& choice, const std::string& members, std::string_view finish_reason,
                             const std::string& receipts) {
  std::string out = "data: " + head_;
  if (std::exchange(first_chunk_, false)) {
    out += ",\"eadem\":" + eadem_with(receipts);
  } else if (!receipts.empty()) {
    out += ",\"eadem\":{\"receipts\":[" + receipts + "]}";
  }
  out += ",\"choices\":[{\"index\":";
  append_integer(out, choice.index);
  out += ',';
  out += members;
  out += ",\"finish_reason\":";
  if (finish_reason.empty()) {
    out += "null";
  } else {
    append_string(out, finish_reason);
  }
  out += "}]";
  if (ask_.continuous_usage) {
    out += ",\"usage\":" + usage_json(false);
  } else if (ask_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
  reply_->write(std::move(out));
}

void Generation::begin_choice(Choice& choice, const std::vector<SampledToken>& prompt) {
  if (std::exchange(choice.begun, true)) return;
  const std::string extras = prompt_members(choice, prompt);
  if (ask_.chat) {
    write_chunk(choice, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null" + extras, {});
    return;
  }
  if (!ask_.echo && extras.empty()) return;
  std::string members = "\"text\":";
  append_string(members, ask_.echo ? std::string_view(echoes_[static_cast<size_t>(choice.prompt)]) : "");
  members += ",\"logprobs\":";
  if (ask_.echo && ask_.logprobs >= 0) {
    for (size_t i = 0; i < prompt.size(); ++i) choice.completion_logprobs.add(prompt[i], i == 0);
    members += choice.completion_logprobs.take();
  } else {
    members += "null";
  }
  write_chunk(choice, members + extras, {});
}

void Generation::stream_token(Choice& choice, const SampledToken& token, const std::string& text) {
  begin_choice(choice, {});
  std::string members;
  bool shows = ask_.logprobs >= 0 || ask_.return_token_ids;
  if (ask_.chat) {
    const AnswerText::Delta delta = choice.text.feed(text);
    shows = shows || !delta.empty();
    members = "\"delta\":{" + message_members(delta, true) + "},\"logprobs\":";
  } else {
    shows = shows || !text.empty();
    members = "\"text\":";
    append_string(members, text);
    members += ",\"logprobs\":";
  }
  if (!shows) return;
  if (ask_.logprobs < 0) {
    members += "null";
  } else if (ask_.chat) {
    choice.chat_logprobs.add(token);
    members += choice.chat_logprobs.take();
  } else {
    choice.completion_logprobs.add(token);
    members += choice.completion_logprobs.take();
  }
  if (ask_.return_token_ids) members += ",\"token_ids\":[" + std::to_string(token.token) + "]";
  write_chunk(choice, members, {});
}

void Generation::end_choice(Choice& choice, const Completion& answer) {
  begin_choice(choice, answer.prompt_tokens);
  std::string members = "\"text\":\"\",\"logprobs\":null";
  if (ask_.chat) {
    members = "\"delta\":{" + message_members(choice.text.finish(), true) + "},\"logprobs\":null";
  }
  write_chunk(choice, members, finish_reason_of(choice, answer), ask_.receipt ? receipt_of(choice, answer) : "");
}

void Generation::end_stream() {
  if (ask_.include_usage) {
    reply_->write("data: " + head_ + ",\"choices\":[],\"usage\":" + usage_json(true) + "}\n\n");
  }
  reply_->write("data: [DONE]\n\n");
  reply_->end();
}

}  // namespace eadem::server
