// One answer under way: follows its sequence, turns tokens into text, ends at stop strings, and becomes a Completion.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/stop_text.h"
#include "contract/logprob_chain.h"
#include "eadem/result.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace eadem::api {

// The seed that answer `index` of a request draws with; alone, an answer of this seed is the same.
uint64_t seed_of_answer(uint64_t seed, int index);
// For a request that brings none: below 2^53, so that every JSON reader keeps it exactly.
uint64_t random_seed();

class Answer final : public engine::Listener {
 public:
  // on_text: (token, text that became certain), false to end the answer. on_end: the answer is complete. tokenizer may
  // be null.
  using OnText = std::function<bool(const SampledToken& token, std::string_view text)>;
  Answer(int index, uint64_t seed, const SamplingParams& sampling, const text::Tokenizer* tokenizer, OnText on_text,
         std::function<void()> on_end);

  using OnPrompt = std::function<void(const std::vector<SampledToken>& tokens)>;
  void on_prompt_done(OnPrompt callback) { on_prompt_ = std::move(callback); }

  // Fills step_hashes and steps_digest. The sequence's logprobs are on for it; the caller sees them where it asked.
  void keep_steps(int64_t prompt_tokens);

  void when_started(std::function<void()> callback) { on_start_ = std::move(callback); }

  void on_start() override {
    if (on_start_) on_start_();
  }
  void on_prompt(std::vector<SampledToken> tokens) override;
  bool on_token(const SampledToken& token, bool last) override;
  void on_finish(const engine::Outcome& outcome) override;

  Completion take() { return std::move(completion_); }

 private:
  std::string show(const SampledToken& token, bool last);
  void count_step(SampledToken& token);

  Completion completion_;
  std::optional<text::StreamDecoder> decoder_;
  StopText stop_;
  size_t min_tokens_ = 0;
  std::optional<contract::LogprobChain> steps_;
  int64_t prompt_size_ = 0;      // where steps_ is kept
  bool shows_logprobs_ = false;  // the caller asked for them
  std::function<void()> on_start_;
  OnPrompt on_prompt_;
  OnText on_text_;
  std::function<void()> on_end_;
  bool refused_ = false;  // the caller ended it
};

}  // namespace eadem::api
