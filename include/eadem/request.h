// What a caller asks: a prompt and how to sample from it. The answer is a function of this, the model and the numerics
// alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eadem {

// What the text of an answer must match: tokens that would leave it are masked, row by row.
struct Guide {
  enum class Kind : uint8_t { kJsonSchema, kRegex, kLark };
  Kind kind = Kind::kJsonSchema;
  std::string text;  // a JSON schema, a regular expression, or a Lark grammar of llguidance's dialect

  bool operator==(const Guide&) const = default;
};

// Names, meanings and defaults are those of the completions API and vLLM's extras.
struct SamplingParams {
  int max_tokens = 16;                                // tokens to draw, at least 1 (0 with prompt_logprobs: score only)
  int min_tokens = 0;                                 // stop tokens and end-of-text are masked before this many
  float temperature = 1.0f;                           // 0: greedy; else at least 1e-5
  int top_k = 0;                                      // 0 or -1: off
  float top_p = 1.0f;                                 // (0, 1]
  float min_p = 0.0f;                                 // [0, 1]
  float repetition_penalty = 1.0f;                    // > 0; over prompt and output
  float presence_penalty = 0.0f;                      // [-2, 2]; over the output
  float frequency_penalty = 0.0f;                     // [-2, 2]; over the output
  std::vector<std::pair<int32_t, float>> logit_bias;  // token id, bias in [-100, 100]
  std::optional<uint64_t> seed;                       // absent: one below 2^53 is drawn and told in the answer
  int n = 1;                                          // answers; answer i draws with mix(seed, i)

  std::vector<std::string> stop;        // the text ends before the first of these
  std::vector<int32_t> stop_token_ids;  // besides the model's end-of-text tokens
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;

  int logprobs = -1;                // -1: none; k >= 0: each token's own and the k largest
  int prompt_logprobs = -1;         // likewise, for the prompt's tokens; always of the raw logits
  bool processed_logprobs = false;  // false: of the raw logits; true: after penalties, temperature, top-k, top-p, min-p

  // Forced continuation: the answer follows these tokens and reports their logprobs; then it goes on freely up to
  // max_tokens. Stop tokens are obeyed from the last of these on.
  std::vector<int32_t> golden_token_ids;

  std::optional<Guide> guide;
};

// An embedding instead of an answer: the final hidden states of all prompt positions, or of the last, become one vector
// of length 1 (Completion::embedding). No token is drawn and `sampling` does not matter.
enum class Pooling : uint8_t { kNone, kMean, kLast };

struct Request {
  std::string id;                         // repeated in the answer
  std::vector<int32_t> prompt_token_ids;  // at least one
  SamplingParams sampling;
  Pooling pooling = Pooling::kNone;

  // Keep what a receipt needs (Completion::step_hashes). The answer is the same.
  bool receipt = false;

  // When it runs, never what comes out.
  int priority = 0;  // smaller comes first; equal ones by arrival
  // Past it the answers end where they are (FinishReason::kTimeout)
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

}  // namespace eadem
