#include "sampler/race.h"

#include <algorithm>
#include <limits>

#include "numerics/sampling.h"

namespace eadem::sampler {
namespace {

// Noise of at least D = -2 ... 22 needs a word of at most this: 2^32 (1 - e^(-e^-D)), with 0.1 % and 16 to spare
// (tested against the noise itself, tests/unit/sampler).
constexpr int kLeastNoise = -2, kMostNoise = 22;
constexpr uint32_t kLargestWord[kMostNoise - kLeastNoise + 1] = {
    0xffffffff, 0xef589ea6, 0xa1fc1470, 0x4ee01ca2, 0x206fa507, 0x0c7222d8, 0x04a69904, 0x01b888ba, 0x00a268a8,
    0x003bcb38, 0x001600df, 0x0008187a, 0x0002fa7d, 0x0001188c, 0x0000673f, 0x00002605, 0x00000e06, 0x00000533,
    0x000001f3, 0x000000c1, 0x00000051, 0x00000028, 0x00000018, 0x00000013, 0x00000011};

// Logits below this lose to `best` whatever their noise; 23 leaves room for the roundings of this line and of the
// score.
float least_winner(float best) { return best - 23.0f - (best < 0.0f ? -best : best) * 0x1p-20f; }

}  // namespace

bool surely_loses(float logit, uint32_t word, float best) {
  const float distance = numerics::sub_f32(best, logit);
  if (!(distance >= static_cast<float>(kLeastNoise + 1))) return false;
  int noise = static_cast<int>(std::min(distance, static_cast<float>(kMostNoise)));
  if (static_cast<float>(noise) > distance) --noise;  // truncation went up: distance < 0
  // logit + noise must itself lose, for then every smaller noise does: rounding keeps order.
  if (!(numerics::add_f32(logit, static_cast<float>(noise)) < best)) --noise;
  if (noise < kLeastNoise || !(numerics::add_f32(logit, static_cast<float>(noise)) < best)) return false;
  return word > kLargestWord[noise - kLeastNoise];
}

void Race::enter_one(float logit, int32_t token, uint32_t word) {
  if (token_ >= 0 && surely_loses(logit, word, best_)) return;
  const float score = numerics::gumbel_score(logit, word);
  const auto id = static_cast<uint32_t>(token);
  if (token_ >= 0 && !numerics::comes_before(score, id, best_, static_cast<uint32_t>(token_))) return;
  best_ = score;
  token_ = token;
  least_ = least_winner(best_);
}

void Race::enter(std::span<const Candidate> candidates) {
  if (candidates.size() == 1) token_ = candidates[0].token;  // no noise is needed to win alone
  if (candidates.size() <= 1) return;
  for (const Candidate& c : candidates) {
    if (c.logit < least_) continue;
    enter_one(c.logit, c.token, numerics::token_word(seed_, static_cast<uint32_t>(c.token), position_));
  }
}

void Race::enter_all(const kernels::KernelSet& set, std::span<const float> logits, int32_t favourite, const Cut& cut,
                     RaceScratch& scratch) {
  enter_one(logits[static_cast<size_t>(favourite)], favourite,
            numerics::token_word(seed_, static_cast<uint32_t>(favourite), position_));
  // The more have raced, the fewer of the next can win: pieces grow with what lies behind them. Entering the favourite
  // again changes nothing.
  const int n = static_cast<int>(logits.size());
  for (int begin = 0, size = 256; begin < n; begin += size, size = std::min(begin, RaceScratch::kMostAtOnce)) {
    const kernels::RaceCall call{logits.data(), seed_, position_, std::max(cut.logit, least_), best_};
    const int end = std::min(begin + size, n);
    const int count = set.contenders(call, begin, end, scratch.tokens.data(), scratch.words.data());
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const int32_t token = scratch.tokens[i];
      const float logit = logits[static_cast<size_t>(token)];
      if (cut.keeps(logit, token)) enter_one(logit, token, scratch.words[i]);
    }
  }
}

}  // namespace eadem::sampler
