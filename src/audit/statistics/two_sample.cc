#include "audit/statistics/two_sample.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "audit/statistics/paired.h"
#include "audit/statistics/random.h"
#include "core/check.h"

namespace eadem::audit::statistics {
namespace {

// One prompt's sequences with categories numbered 0, 1, ... within each position, and the sides that they are on.
class Deck {
 public:
  explicit Deck(const TwoSamples& samples);

  double squared_distance();
  void shuffle(Random& random);

 private:
  size_t category(size_t sequence, size_t position) const { return cells_[sequence * positions_ + position]; }
  double agreement(size_t position);

  size_t positions_, a_, b_, paired_;
  std::vector<uint32_t> cells_;            // [a + b][positions]; all of a, then all of b
  std::vector<uint32_t> kinds_;            // categories at each position
  std::vector<uint32_t> side_a_, side_b_;  // sequences; partners stand at the same place
  std::vector<int64_t> count_a_, count_b_;
};

Deck::Deck(const TwoSamples& samples)
    : positions_(samples.positions), a_(samples.size_a()), b_(samples.size_b()), paired_(samples.paired) {
  EADEM_CHECK(positions_ >= 1 && a_ >= 2 && b_ >= 2 && paired_ <= std::min(a_, b_));
  cells_.resize((a_ + b_) * positions_);
  for (size_t j = 0; j < positions_; ++j) {
    std::unordered_map<int32_t, uint32_t> numbers;
    for (size_t s = 0; s < a_ + b_; ++s) {
      const int32_t token = s < a_ ? samples.a[s * positions_ + j] : samples.b[(s - a_) * positions_ + j];
      cells_[s * positions_ + j] = numbers.try_emplace(token, static_cast<uint32_t>(numbers.size())).first->second;
    }
    kinds_.push_back(static_cast<uint32_t>(numbers.size()));
  }
  for (size_t s = 0; s < a_; ++s) side_a_.push_back(static_cast<uint32_t>(s));
  for (size_t s = 0; s < b_; ++s) side_b_.push_back(static_cast<uint32_t>(a_ + s));
}

// The squared distance at one position.
double Deck::agreement(size_t position) {
  count_a_.assign(kinds_[position], 0);
  count_b_.assign(kinds_[position], 0);
  for (const uint32_t s : side_a_) ++count_a_[category(s, position)];
  for (const uint32_t s : side_b_) ++count_b_[category(s, position)];
  int64_t within_a = 0, within_b = 0, across = 0;  // ordered pairs that agree
  for (size_t k = 0; k < count_a_.size(); ++k) {
    within_a += count_a_[k] * (count_a_[k] - 1);
    within_b += count_b_[k] * (count_b_[k] - 1);
    across += count_a_[k] * count_b_[k];
  }
  for (size_t i = 0; i < paired_; ++i) across -= category(side_a_[i], position) == category(side_b_[i], position);
  const auto a = static_cast<double>(a_), b = static_cast<double>(b_), partners = static_cast<double>(paired_);
  return static_cast<double>(within_a) / (a * (a - 1.0)) + static_cast<double>(within_b) / (b * (b - 1.0)) -
         2.0 * static_cast<double>(across) / (a * b - partners);
}

double Deck::squared_distance() {
  double sum = 0.0;
  for (size_t j = 0; j < positions_; ++j) sum += agreement(j);
  return sum / static_cast<double>(positions_);
}

void Deck::shuffle(Random& random) {
  for (size_t i = 0; i < paired_; ++i) {
    if (random.coin()) std::swap(side_a_[i], side_b_[i]);
  }
  // Deals the others: each place of side a takes any of those that are left.
  const size_t free_a = a_ - paired_, all = free_a + b_ - paired_;
  const auto at = [&](size_t i) -> uint32_t& {
    return i < free_a ? side_a_[paired_ + i] : side_b_[paired_ + i - free_a];
  };
  for (size_t i = 0; i < free_a && all - i > 1; ++i)
    std::swap(at(i), at(i + random.below(static_cast<uint32_t>(all - i))));
}

double sum_of(std::vector<Deck>& decks) {
  double sum = 0.0;
  for (Deck& deck : decks) sum += deck.squared_distance();
  return sum;
}

}  // namespace

double squared_distance(const TwoSamples& samples) { return Deck(samples).squared_distance(); }

double permutation_test(std::span<const TwoSamples> prompts, uint64_t seed, int permutations, int enough) {
  EADEM_CHECK(permutations >= 1 && enough >= 1);
  std::vector<Deck> decks;
  decks.reserve(prompts.size());
  for (const TwoSamples& samples : prompts) decks.emplace_back(samples);
  const double observed = sum_of(decks);
  const double least = observed - 1e-9;  // equal but for rounding counts as large
  Random random(seed);
  int as_large = 0;
  for (int i = 1; i <= permutations; ++i) {
    for (Deck& deck : decks) deck.shuffle(random);
    as_large += sum_of(decks) >= least;
    if (as_large == enough) return static_cast<double>(enough) / static_cast<double>(i);
  }
  return static_cast<double>(as_large + 1) / static_cast<double>(permutations + 1);
}

Estimate mean_squared_distance(std::span<const TwoSamples> prompts, double confidence) {
  std::vector<double> distances;
  distances.reserve(prompts.size());
  for (const TwoSamples& samples : prompts) distances.push_back(squared_distance(samples));
  return hall_interval(distances, confidence);
}

}  // namespace eadem::audit::statistics
