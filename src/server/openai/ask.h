// What a body of /v1/completions or /v1/chat/completions asks, read and checked but not yet rendered or tokenised: a
// function of the body and the defaults alone, without an engine.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract/receipt.h"
#include "core/result.h"
#include "eadem/request.h"
#include "server/openai/fields.h"
#include "server/openai/tools.h"

namespace eadem::server {

// Answers that one HTTP request may ask for: prompts times n.
inline constexpr int64_t kMaxAnswers = 1024;
// The k of logprobs, top_logprobs and prompt_logprobs.
inline constexpr int kMaxLogprobs = 20;

using TextOrTokens = std::variant<std::string, std::vector<int32_t>>;

// How a conversation becomes a prompt.
struct ChatPrompt {
  std::string messages;       // JSON array, contents flattened to text
  std::string kwargs;         // JSON object; empty: none
  std::string final_message;  // where the answer goes on from it
  bool generation_prompt = true, continue_final = false;
};

struct Ask {
  bool chat = false;
  std::string model;                  // empty: the default one
  std::vector<TextOrTokens> prompts;  // completions
  bool prompt_list = false;           // they came as a list of prompts
  bool add_special_tokens = true;
  ChatPrompt conversation;
  Tools tools;

  SamplingParams sampling;
  std::string guide_field;  // which field sampling.guide came from
  bool max_tokens_given = false;
  int priority = 0;
  std::optional<std::chrono::milliseconds> timeout;

  bool stream = false, include_usage = false, continuous_usage = false;
  bool echo = false;
  int logprobs = -1;             // of the OpenAI-shaped object; -1: none
  bool prompt_logprobs = false;  // the extra of that name, with so many of the most likely
  int prompt_top = 0;
  bool return_token_ids = false, tokens_as_ids = false;
  std::optional<contract::ReceiptContent> receipt;
};

Result<Ask> parse_completion(std::string_view body, const SamplingParams& defaults);
Result<Ask> parse_chat(std::string_view body, const SamplingParams& defaults);

// A prompt field: a text, texts, token ids, or lists of them. list: it was a list of prompts.
Result<std::vector<TextOrTokens>> parse_prompts(const nlohmann::ordered_json& value, std::string_view field,
                                                bool& list);

// messages, chat_template_kwargs, add_generation_prompt, continue_final_message.
Result<ChatPrompt> parse_conversation(const nlohmann::ordered_json& own);

// priority, timeout.
Result<void> parse_schedule(const nlohmann::ordered_json& own, int& priority,
                            std::optional<std::chrono::milliseconds>& timeout);

}  // namespace eadem::server
