// Who guesses what a sequence will say next. Guesses cost rows where they are wrong and save steps where they are
// right; the rows of a step check them, and no guess can reach an answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence.h"

namespace eadem::engine {

// What a drafter could say of a sequence.
struct Outlook {
  int tokens = 0;                         // guesses it has, at most kMostDraft
  std::array<float, kMostDraft> reach{};  // [i], i < tokens: the chance that the first i + 1 are all right; descending
};

struct Proposal {
  const Sequence* sequence = nullptr;
  int most = 0;                 // guesses wanted, 1 ... Outlook::tokens
  std::vector<int32_t> tokens;  // filled by the drafter: what follows sequence->tokens, at most `most`
};

// Sees sequences between steps, when each has its last token alone to compute; their tokens only ever grow.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual Outlook look(const Sequence& sequence) = 0;
  // All sequences of a step at once.
  virtual void propose(std::span<Proposal> proposals) = 0;
  // The fate of a proposal: how many of its guesses were computed, and how many of them were right.
  virtual void judge(const Sequence& sequence, int drafted, int accepted) = 0;
  // A sequence ended.
  virtual void forget(SequenceId id) = 0;
  // What one guess costs, as a part of what the model's step over one row costs.
  virtual float cost() const { return 0.0f; }
};

// How often guesses of a kind are right: a mean over the recent past, begun with `trials` imagined ones.
class Confidence {
 public:
  Confidence(float chance, float trials) : right_(chance * trials), trials_(trials) {}

  // `accepted` guesses were right; if `drafted` is more, the next one was wrong, and the rest say nothing.
  void add(int drafted, int accepted) {
    if (trials_ > kMemory) right_ *= 0.5f, trials_ *= 0.5f;
    right_ += static_cast<float>(accepted);
    trials_ += static_cast<float>(accepted + (drafted > accepted ? 1 : 0));
  }
  float chance() const { return right_ / trials_; }

 private:
  static constexpr float kMemory = 40.0f;
  float right_, trials_;
};

}  // namespace eadem::engine
