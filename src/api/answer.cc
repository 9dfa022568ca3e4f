#include "api/answer.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "numerics/rng.h"

namespace eadem::api {

uint64_t seed_of_answer(uint64_t seed, int index) { return numerics::mix(seed, static_cast<uint64_t>(index)); }

uint64_t random_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) & ((uint64_t{1} << 53) - 1);
}

Answer::Answer(int index, uint64_t seed, const SamplingParams& sampling, const text::Tokenizer* tokenizer,
               OnText on_text, std::function<void()> on_end)
    : stop_(sampling.stop, sampling.include_stop_str_in_output),
      on_text_(std::move(on_text)),
      on_end_(std::move(on_end)) {
  completion_.index = index;
  completion_.seed = seed;
  shows_logprobs_ = sampling.logprobs >= 0;
  min_tokens_ = static_cast<size_t>(std::max(sampling.min_tokens, 0));
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, text::DecodeOptions{sampling.skip_special_tokens, true});
}

// The text that this token makes certain. A last token brings all that was held back, unless a stop string ends the
// answer.
std::string Answer::show(const SampledToken& token, bool last) {
  if (!decoder_) return {};
  std::string piece = decoder_->push(static_cast<uint32_t>(token.token));
  // Stop strings count from the first text after min_tokens; nothing was held back before.
  if (!last && completion_.tokens.size() <= min_tokens_) return piece;
  std::string text = stop_.feed(piece);
  if (last && !stop_.stopped()) text += stop_.feed(decoder_->finish());
  if (last && !stop_.stopped()) text += stop_.flush();
  return text;
}

void Answer::keep_steps(int64_t prompt_tokens) {
  steps_.emplace();
  prompt_size_ = prompt_tokens;
}

void Answer::count_step(SampledToken& token) {
  steps_->add(prompt_size_ + static_cast<int64_t>(completion_.tokens.size()) - 1, token);
  if (!shows_logprobs_) token.logprob = std::numeric_limits<float>::quiet_NaN();
}

void Answer::on_prompt(std::vector<SampledToken> tokens) {
  if (steps_) {
    for (size_t i = 0; i < tokens.size(); ++i) steps_->add(static_cast<int64_t>(i), tokens[i]);
  }
  completion_.prompt_tokens = std::move(tokens);
  if (on_prompt_) on_prompt_(completion_.prompt_tokens);
}

bool Answer::on_token(const SampledToken& drawn, bool last) {
  completion_.tokens.push_back(drawn);
  if (steps_) count_step(completion_.tokens.back());
  const SampledToken& token = completion_.tokens.back();
  const std::string text = show(token, last);
  completion_.text += text;
  const bool wanted = !on_text_ || on_text_(token, text);
  if (!wanted) refused_ = true;
  return wanted && !stop_.stopped();
}

void Answer::on_finish(const engine::Outcome& outcome) {
  completion_.finish_reason = refused_ ? FinishReason::kCancelled : outcome.reason;
  if (stop_.stopped() && outcome.reason != FinishReason::kError) completion_.finish_reason = FinishReason::kStop;
  completion_.error = outcome.error;
  completion_.kv_hash = outcome.kv_hash;
  completion_.embedding = outcome.embedding;
  completion_.cached_tokens = outcome.cached_tokens;
  completion_.drafted_tokens = outcome.drafted_tokens;
  completion_.accepted_tokens = outcome.accepted_tokens;
  completion_.preemptions = outcome.preemptions;
  if (steps_) {
    completion_.step_hashes = steps_->heads();
    completion_.steps_digest = steps_->digest();
  }
  on_end_();
}

}  // namespace eadem::api
