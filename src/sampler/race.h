// The draw by Gumbel noise: the largest logit + noise wins, ties go to the lower token id. Noise is computed only
// where it could win.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.h"
#include "sampler/selection.h"

namespace eadem::sampler {

// Tokens that a kernel found worth an exact look.
struct RaceScratch {
  static constexpr int kMostAtOnce = 1 << 14;
  std::vector<int32_t> tokens = std::vector<int32_t>(kMostAtOnce);
  std::vector<uint32_t> words = std::vector<uint32_t>(kMostAtOnce);
};

class Race {
 public:
  Race(uint64_t seed, uint32_t position) : seed_(seed), position_(position) {}

  void enter(std::span<const Candidate> candidates);
  // Every finite logit of a row that the cut keeps. `favourite`: the token with the largest, entered first, so that
  // most of the others cannot win. scratch: room for kMostAtOnce.
  void enter_all(const kernels::KernelSet& set, std::span<const float> logits, int32_t favourite, const Cut& cut,
                 RaceScratch& scratch);

  int32_t winner() const { return token_; }

 private:
  void enter_one(float logit, int32_t token, uint32_t word);

  uint64_t seed_;
  uint32_t position_;
  float best_ = -__builtin_inff();
  int32_t token_ = -1;
  float least_ = -__builtin_inff();  // a smaller logit loses whatever its noise
};

// Whether `logit` with the noise of `word` certainly stays below `best`, told without logarithms; false means only
// "perhaps not".
bool surely_loses(float logit, uint32_t word, float best);

}  // namespace eadem::sampler
