// Runs requests through an engine and reduces each answer to one digest: token ids, the bits of every logprob, finish
// reason, KV hash.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "engine/engine.h"

namespace eadem::testing {

// A request that draws: a prompt of `prompt` tokens below 100, two alternatives; all of it follows from `seed`.
inline engine::SequenceRequest drawn_request(uint32_t seed, int prompt, int max_tokens) {
  std::mt19937 rng(seed);
  engine::SequenceRequest r;
  for (int i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng() % 100));
  r.sampling.max_tokens = max_tokens;
  r.sampling.temperature = 0.9f;
  r.sampling.logprobs = 2;
  r.seed = seed * 7919;
  r.kv_hash = true;
  return r;
}

struct Answer final : engine::Listener {
  std::vector<SampledToken> prompt, tokens;
  engine::Outcome outcome;
  bool finished = false, last_seen = false;
  int prompts_told = 0;
  size_t stop_after = 0;  // tokens after which the listener stops the sequence; 0: never
  uint64_t finished_at = 0;

  void on_prompt(std::vector<SampledToken> told) override {
    prompt = std::move(told);
    ++prompts_told;
  }
  bool on_token(const SampledToken& token, bool last) override {
    EADEM_CHECK(!finished && !last_seen);
    tokens.push_back(token);
    last_seen = last;
    return stop_after == 0 || tokens.size() < stop_after;
  }
  void on_finish(const engine::Outcome& ended) override {
    EADEM_CHECK(!finished);
    finished = true;
    outcome = ended;
  }

  std::vector<int32_t> ids() const {
    std::vector<int32_t> all;
    for (const SampledToken& token : tokens) all.push_back(token.token);
    return all;
  }
};

inline void hash_tokens(Sha256& hash, const std::vector<SampledToken>& tokens) {
  const auto bits = [](float x) {
    uint32_t u = 0;
    std::memcpy(&u, &x, sizeof u);
    return x != x ? 0x7fc00000u : u;
  };
  hash.update_value(tokens.size());
  for (const SampledToken& token : tokens) {
    hash.update_value(token.token);
    hash.update_value(bits(token.logprob));
    for (const TokenLogprob& top : token.top) {
      hash.update_value(top.token);
      hash.update_value(bits(top.logprob));
    }
  }
}

inline std::string digest(const Answer& answer) {
  Sha256 hash;
  hash_tokens(hash, answer.prompt);
  hash_tokens(hash, answer.tokens);
  hash.update_value(answer.outcome.reason);
  hash.update(std::as_bytes(std::span(answer.outcome.kv_hash)));
  hash.update(std::as_bytes(std::span(answer.outcome.embedding)));
  return hash.hex();
}

using Answers = std::vector<std::unique_ptr<Answer>>;

// Submits all, then steps until nothing is left. A request that is refused has an answer with its error.
inline Answers run_all(engine::Engine& engine, const std::vector<engine::SequenceRequest>& requests) {
  Answers answers;
  for (const engine::SequenceRequest& request : requests) {
    answers.push_back(std::make_unique<Answer>());
    const auto submitted = engine.submit(request, answers.back().get());
    if (!submitted.ok()) answers.back()->on_finish({FinishReason::kError, submitted.error().message, {}, 0});
  }
  while (engine.step()) {
  }
  return answers;
}

inline std::vector<std::string> digests(const Answers& answers) {
  std::vector<std::string> all;
  for (const auto& answer : answers) all.push_back(digest(*answer));
  return all;
}

}  // namespace eadem::testing
