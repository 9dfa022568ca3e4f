// Prompt lookup: where the last tokens of a sequence stood before, what followed them then is guessed to follow again.
// The longest match is taken, the latest of equals. A match may overlap what it copies, so that a period goes on.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/drafter.h"

namespace eadem::engine {

class NgramDrafter final : public Drafter {
 public:
  Outlook look(const Sequence& sequence) override;
  void propose(std::span<Proposal> proposals) override;
  void judge(const Sequence& sequence, int drafted, int accepted) override;
  void forget(SequenceId id) override { states_.erase(id); }

 private:
  // Matches of 2, 3, 4, 5-6, 7-9, 10-15 and more tokens.
  static constexpr int kClasses = 7;
  static int class_of(int matched);

  struct Match {
    int64_t end = -1;  // the position of its last token; -1: none
    int length = 0;
  };

  struct State {
    State();
    std::unordered_map<uint64_t, int32_t> latest;  // two tokens -> the last position at which the pair ends
    std::vector<int32_t> before;                   // by position: where the same pair ended before; -1: nowhere
    Match match;                                   // of the last look
    std::array<Confidence, kClasses> confidence;
  };

  static void index(State& state, const std::vector<int32_t>& tokens);
  static Match find(const State& state, const std::vector<int32_t>& tokens);

  std::unordered_map<SequenceId, State> states_;
};

}  // namespace eadem::engine
