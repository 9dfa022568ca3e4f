#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>

#include "sampler/sampler.h"

namespace eadem::sampler {
namespace {

// A field's value as a message shows it.
std::string text(float x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(x));
  return buffer;
}
std::string text(int64_t x) { return std::to_string(x); }

// Fields are refused unless inside their range, so that NaN is refused too.
Result<void> require(bool good, const char* field, const std::string& value, const std::string& range) {
  if (good) return {};
  return Error{std::string(field) + " is " + value + "; it must be " + range};
}

Result<void> check_tokens(const std::vector<int32_t>& tokens, const char* field, int64_t vocab) {
  for (const int32_t token : tokens) {
    EADEM_RETURN_IF_ERROR(require(token >= 0 && token < vocab, field, text(int64_t{token}),
                                  "token ids of the model, 0 to " + text(vocab - 1)));
  }
  return {};
}

Result<void> check_bias(const std::vector<std::pair<int32_t, float>>& bias, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (const auto& [token, value] : bias) {
    tokens.push_back(token);
    EADEM_RETURN_IF_ERROR(
        require(value >= -100.0f && value <= 100.0f, "logit_bias", text(value), "from -100 to 100 for each token"));
  }
  EADEM_RETURN_IF_ERROR(check_tokens(tokens, "logit_bias", vocab));
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice != tokens.end()) return Error{"logit_bias names token " + text(int64_t{*twice}) + " twice; name it once"};
  return {};
}

Result<void> check_lengths(const SamplingParams& p) {
  const bool scores = p.prompt_logprobs >= 0;
  EADEM_RETURN_IF_ERROR(require(p.max_tokens >= (scores ? 0 : 1), "max_tokens", text(int64_t{p.max_tokens}),
                                "at least 1, or 0 together with prompt_logprobs (score only)"));
  EADEM_RETURN_IF_ERROR(require(p.min_tokens >= 0 && p.min_tokens <= p.max_tokens, "min_tokens",
                                text(int64_t{p.min_tokens}), "from 0 to max_tokens"));
  EADEM_RETURN_IF_ERROR(require(p.golden_token_ids.size() <= static_cast<size_t>(p.max_tokens), "golden_token_ids",
                                text(static_cast<int64_t>(p.golden_token_ids.size())) + " tokens long",
                                "at most max_tokens long"));
  return require(p.n >= 1, "n", text(int64_t{p.n}), "at least 1");
}

}  // namespace

Result<void> check_params(const SamplingParams& p, int64_t vocab) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const bool warm = p.temperature >= 1e-5f && p.temperature <= kLargest;
  EADEM_RETURN_IF_ERROR(
      require(p.temperature == 0.0f || warm, "temperature", text(p.temperature), "0 (greedy) or at least 1e-5"));
  EADEM_RETURN_IF_ERROR(
      require(p.top_k >= -1, "top_k", text(int64_t{p.top_k}), "at least 1, or 0 or -1 to switch it off"));
  EADEM_RETURN_IF_ERROR(require(p.top_p > 0.0f && p.top_p <= 1.0f, "top_p", text(p.top_p), "above 0 and at most 1"));
  EADEM_RETURN_IF_ERROR(require(p.min_p >= 0.0f && p.min_p <= 1.0f, "min_p", text(p.min_p), "from 0 to 1"));
  EADEM_RETURN_IF_ERROR(require(p.repetition_penalty > 0.0f && p.repetition_penalty <= kLargest, "repetition_penalty",
                                text(p.repetition_penalty), "above 0"));
  EADEM_RETURN_IF_ERROR(require(p.presence_penalty >= -2.0f && p.presence_penalty <= 2.0f, "presence_penalty",
                                text(p.presence_penalty), "from -2 to 2"));
  EADEM_RETURN_IF_ERROR(require(p.frequency_penalty >= -2.0f && p.frequency_penalty <= 2.0f, "frequency_penalty",
                                text(p.frequency_penalty), "from -2 to 2"));
  EADEM_RETURN_IF_ERROR(check_bias(p.logit_bias, vocab));
  EADEM_RETURN_IF_ERROR(check_lengths(p));
  EADEM_RETURN_IF_ERROR(check_tokens(p.stop_token_ids, "stop_token_ids", vocab));
  EADEM_RETURN_IF_ERROR(check_tokens(p.golden_token_ids, "golden_token_ids", vocab));
  const std::string range = "-1 (none) or from 0 to the vocabulary's size, " + text(vocab);
  EADEM_RETURN_IF_ERROR(require(p.logprobs >= -1 && p.logprobs <= vocab, "logprobs", text(int64_t{p.logprobs}), range));
  EADEM_RETURN_IF_ERROR(require(p.prompt_logprobs >= -1 && p.prompt_logprobs <= vocab, "prompt_logprobs",
                                text(int64_t{p.prompt_logprobs}), range));
  const bool empty_stop = std::any_of(p.stop.begin(), p.stop.end(), [](const std::string& s) { return s.empty(); });
  return require(!empty_stop, "stop", "an empty string", "strings of at least one byte");
}

}  // namespace eadem::sampler
