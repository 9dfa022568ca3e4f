// Drafters for tests: they know the answers, and say them, or not.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "engine/drafter.h"

namespace eadem::testing {

class ScriptedDrafter final : public engine::Drafter {
 public:
  enum class Manner {
    kRight,    // the answer
    kMixed,    // the answer, now and then with a wrong token
    kWrong,    // never the answer
    kRandom,   // any tokens
    kHostile,  // too many of them, and such as are none
  };

  // answers: of sequence i + 1, what follows its prompt. vocab: of the model.
  ScriptedDrafter(Manner manner, std::vector<std::vector<int32_t>> answers, int32_t vocab, float chance = 1.0f)
      : manner_(manner), answers_(std::move(answers)), vocab_(vocab), chance_(chance) {}

  engine::Outlook look(const engine::Sequence&) override {
    engine::Outlook outlook;
    outlook.tokens = engine::kMostDraft;
    float reach = 1.0f;
    for (float& r : outlook.reach) r = reach *= chance_;
    return outlook;
  }

  void propose(std::span<engine::Proposal> proposals) override {
    for (engine::Proposal& proposal : proposals) {
      const auto at = proposal.sequence->tokens.size() - static_cast<size_t>(proposal.sequence->prompt);
      const int count = proposal.most + (manner_ == Manner::kHostile ? 5 : 0);
      for (int i = 0; i < count; ++i) {
        proposal.tokens.push_back(guess(*proposal.sequence, at + static_cast<size_t>(i)));
      }
    }
  }

  void judge(const engine::Sequence&, int drafted, int accepted) override {
    drafted_most = std::max(drafted_most, drafted);
    if (accepted > 1) ++several_accepted;
  }
  void forget(engine::SequenceId) override { ++forgotten; }

  int drafted_most = 0, several_accepted = 0, forgotten = 0;

 private:
  int32_t guess(const engine::Sequence& sequence, size_t index) {
    const auto& answer = answers_[(sequence.id - 1) % answers_.size()];
    const int32_t right = index < answer.size() ? answer[index] : 0;
    switch (manner_) {
      case Manner::kRight: return right;
      case Manner::kMixed: return random_() % 4 == 0 ? (right + 1) % vocab_ : right;
      case Manner::kWrong: return (right + 1) % vocab_;
      case Manner::kRandom: return static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab_));
      case Manner::kHostile: {
        const int32_t rubbish[] = {right, -1, vocab_, INT32_MAX, INT32_MIN, right};
        return rubbish[random_() % std::size(rubbish)];
      }
    }
    return 0;
  }

  Manner manner_;
  std::vector<std::vector<int32_t>> answers_;
  int32_t vocab_;
  float chance_;
  std::mt19937 random_{5};
};

}  // namespace eadem::testing
