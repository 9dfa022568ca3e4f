// Logprobs as replies show them: OpenAI's objects for completions and chat, and vLLM's prompt_logprobs. Streamed and
// whole replies go through the same writers, so that they cannot differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eadem/engine.h"

namespace eadem::server {

// How tokens are written.
struct TokenStyle {
  const Engine* engine = nullptr;
  int top = 0;               // of the k most likely
  bool as_ids = false;       // token_id:N
  bool skip_special = true;  // special tokens are not in the text
};

// A token's text; "bytes:\xe2\x80" where its bytes are no whole characters, "token_id:N" where it has none.
std::string token_name(const TokenStyle& style, int32_t token);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. A masked token has -9999.0; the first token of a prompt
// has null. text_offset counts the characters of the text that begin before the token.
class CompletionLogprobs {
 public:
  CompletionLogprobs(TokenStyle style, size_t first_offset) : style_(style), offset_(first_offset) {}

  // nothing_before: the first token of a prompt.
  void add(const SampledToken& token, bool nothing_before = false);
  bool empty() const { return tokens_.empty(); }
  // What was added since the last take.
  std::string take();

 private:
  void add_top(const SampledToken& token);

  TokenStyle style_;
  size_t offset_;
  std::string tokens_, logprobs_, top_, offsets_;
};

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}
class ChatLogprobs {
 public:
  explicit ChatLogprobs(TokenStyle style) : style_(style) {}

  void add(const SampledToken& token);
  bool empty() const { return entries_.empty(); }
  std::string take();

 private:
  void add_entry(int32_t token, float logprob);

  TokenStyle style_;
  std::string entries_;
};

// For each token of the prompt null (the first), or an object from token id to {"logprob", "rank", "decoded_token"}:
// the token itself, then the k most likely. A masked logprob, and a rank beyond k, are null.
std::string prompt_logprobs_json(const TokenStyle& style, const std::vector<SampledToken>& tokens);

// Characters that begin in these bytes.
size_t count_characters(std::string_view bytes);

}  // namespace eadem::server
