// What a caller gets.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eadem {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // NaN where the token is masked (JSON: null)
};

struct SampledToken {
  int32_t token = 0;
  float logprob = NAN;            // NaN where not asked for, or masked
  std::vector<TokenLogprob> top;  // in the total order: logit descending, token id ascending
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError, kTimeout };

constexpr std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
    case FinishReason::kTimeout: return "timeout";
  }
  return "error";
}

// One answer of a request.
struct Completion {
  int index = 0;  // 0 ... n - 1
  std::vector<SampledToken> tokens;
  std::vector<SampledToken> prompt_tokens;  // where prompt_logprobs was asked; the first has no logprob
  std::string text;                         // empty without a tokenizer
  FinishReason finish_reason = FinishReason::kStop;
  std::string error;                            // where finish_reason is kError
  uint64_t seed = 0;                            // of this answer: mix(request seed, index)
  int cached_tokens = 0;                        // prompt tokens whose keys and values came from the prefix cache
  int drafted_tokens = 0, accepted_tokens = 0;  // guesses at coming tokens, and those that were right
  int preemptions = 0;                          // how often it lost its blocks and was computed anew
  std::vector<float> embedding;                 // where pooling was asked: [hidden], of length 1
  std::string kv_hash;                          // where asked: SHA-256 of its KV values in logical order
  // Where Request::receipt asked: the running hash after each step (the prompt's, where prompt_logprobs asked, then the
  // answer's), and the hash of all in 64 hexadecimal digits (docs/receipts.md)
  std::vector<uint64_t> step_hashes;
  std::string steps_digest;
};

}  // namespace eadem
