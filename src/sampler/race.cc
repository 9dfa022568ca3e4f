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

void Race::enter_group(std::span<const float> logits, uint32_t group) {
  const numerics::PhiloxBlock block = numerics::token_words(seed_, group, position_);
  const size_t first = size_t{4} * group;
  for (size_t i = 0; i < 4 && first + i < logits.size(); ++i) {
    const float logit = logits[first + i];
    if (logit < least_ || logit == -std::numeric_limits<float>::infinity()) continue;
    enter_one(logit, static_cast<int32_t>(first + i), block.word[i]);
  }
}

void Race::enter_all(std::span<const float> logits, int32_t favourite) {
  enter_group(logits, static_cast<uint32_t>(favourite) >> 2);  // entering a token twice changes nothing
  const size_t whole = logits.size() / 4;
  for (size_t g = 0; g < whole; ++g) {
    const float* l = &logits[4 * g];
    if ((l[0] < least_) & (l[1] < least_) & (l[2] < least_) & (l[3] < least_)) continue;
    enter_group(logits, static_cast<uint32_t>(g));
  }
  if (logits.size() % 4 != 0) enter_group(logits, static_cast<uint32_t>(whole));
}

}  // namespace eadem::sampler
