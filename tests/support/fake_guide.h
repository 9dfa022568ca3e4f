// A grammar without text: which tokens may follow depends on every token before and their order. It checks what the
// engine promises, and it can be made to lie: then its places are shared by all answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/check.h"
#include "engine/token_guide.h"

namespace eadem::testing {

struct FakeGrammar {
  int vocab = 101;
  int32_t eos = -1;           // allowed from `least` tokens on
  int least = 0;              // tokens before it is a whole
  int most = 1 << 20;         // tokens after which nothing may follow
  int fails_after = -1;       // the mask after this many tokens is an error
  bool shares_place = false;  // the negative control
};

class FakeGuide final : public engine::TokenGuide {
 public:
  explicit FakeGuide(const FakeGrammar& grammar)
      : grammar_(grammar), tokens_(std::make_shared<std::vector<int32_t>>()) {}

  static bool allows(const FakeGrammar& grammar, const std::vector<int32_t>& before, int32_t token) {
    const int count = static_cast<int>(before.size());
    if (count >= grammar.most) return false;
    if (token == grammar.eos) return count >= grammar.least;
    uint64_t state = 88172645463325252u;
    for (const int32_t t : before) state = mixed(state + static_cast<uint64_t>(t) + 1);
    return mixed(state ^ (static_cast<uint64_t>(token) << 32)) % 3 == 0;
  }

  Result<void> mask(std::span<uint32_t> allowed) override {
    EADEM_CHECK(allowed.size() == static_cast<size_t>(grammar_.vocab + 31) / 32);
    if (static_cast<int>(tokens_->size()) == grammar_.fails_after) return Error{"too complex"};
    for (uint32_t& word : allowed) word = 0;
    for (int32_t t = 0; t < grammar_.vocab; ++t) {
      if (allows(grammar_, *tokens_, t)) allowed[static_cast<size_t>(t) / 32] |= 1u << (t % 32);
    }
    return {};
  }

  Result<void> accept(int32_t token) override {
    if (!allows(grammar_, *tokens_, token)) return Error{"token " + std::to_string(token) + " may not follow"};
    tokens_->push_back(token);
    return {};
  }

  bool finished() const override {
    return static_cast<int>(tokens_->size()) >= grammar_.most || (!tokens_->empty() && tokens_->back() == grammar_.eos);
  }

  std::unique_ptr<engine::TokenGuide> clone() const override {
    auto copy = std::make_unique<FakeGuide>(*this);
    if (!grammar_.shares_place) copy->tokens_ = std::make_shared<std::vector<int32_t>>(*tokens_);
    return copy;
  }

 private:
  static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  FakeGrammar grammar_;
  std::shared_ptr<std::vector<int32_t>> tokens_;
};

}  // namespace eadem::testing
