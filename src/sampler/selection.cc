#include "sampler/selection.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"
#include "numerics/sampling.h"

namespace eadem::sampler {
namespace {

constexpr size_t kTile = 256;    // logits that are looked at together, so that the compiler can use vectors
constexpr size_t kSmall = 32;    // candidates that are simply sorted
constexpr int kPlaces = 4096;    // tokens that are looked for at once
constexpr size_t kNear = 2048;   // tokens around top-p's last that are looked at one by one, about
constexpr size_t kSample = 512;  // weights that a first guess of it is made of
constexpr size_t kSampleError = 24;

bool before(const Candidate& a, const Candidate& b) {
  return numerics::comes_before(a.logit, static_cast<uint32_t>(a.token), b.logit, static_cast<uint32_t>(b.token));
}

// Whether any of n logits is at least `least`, without a branch for each.
bool any_at_least(const float* logits, size_t n, float least) {
  int any = 0;
  for (size_t i = 0; i < n; ++i) any |= logits[i] >= least;
  return any != 0;
}

bool any_above(const float* logits, size_t n, float bound) {
  int any = 0;
  for (size_t i = 0; i < n; ++i) any |= logits[i] > bound;
  return any != 0;
}

// Weights [low, high), among them that of the token at which a prefix reaches `needed`: those of at least `high` sum to
// `above`, which is less.
struct WeightRange {
  float low = 1.0f, high = 0x1p32f;
  uint64_t above = 0;
};

// Where a sample of the weights reaches `share` of its sum, give or take what a sample may be wrong by.
std::pair<float, float> guess_of(std::span<const float> weights, double share, std::vector<Candidate>& scratch) {
  scratch.clear();
  const size_t step = weights.size() / kSample;
  double sum = 0;
  for (size_t i = 0; i < kSample; ++i) {
    const float weight = weights[i * step];
    scratch.push_back({weight, static_cast<int32_t>(i), 0});
    sum += static_cast<double>(weight);
  }
  std::sort(scratch.begin(), scratch.end(), before);
  size_t at = 0;
  for (double taken = 0; at + 1 < kSample && (taken += static_cast<double>(scratch[at].logit)) < share * sum;) ++at;
  return {scratch[std::min(at + kSampleError, kSample - 1)].logit, scratch[at - std::min(at, kSampleError)].logit};
}

// A narrow range by probing sums: guesses first, then halves (of the numbers' bits, so that it takes few
// steps at any magnitude). Weights rise with logits, so that all tokens above a weight come first in the total order.
WeightRange range_of_weight(const kernels::KernelSet& set, std::span<const float> weights, uint64_t total,
                            uint64_t needed, std::vector<Candidate>& scratch) {
  WeightRange range;
  uint64_t below = total;  // the sum of those of at least range.low
  const auto probe = [&](float weight) {
    if (!(weight > range.low && weight < range.high)) return;
    const uint64_t sum = set.weight_above(weights.data(), static_cast<int>(weights.size()), weight);
    if (sum >= needed) {
      range.low = weight, below = sum;
    } else {
      range.high = weight, range.above = sum;
    }
  };
  const auto wide = [&] {
    return static_cast<double>(below - range.above) > static_cast<double>(kNear) * static_cast<double>(range.low) &&
           numerics::bits_of(range.high) - numerics::bits_of(range.low) > 1;
  };
  if (weights.size() >= 8 * kSample) {
    const auto [low, high] = guess_of(weights, static_cast<double>(needed) / static_cast<double>(total), scratch);
    probe(low), probe(high);
    // Inside a narrow range the sum falls evenly, nearly: the place where it should pass, and a little to either side.
    if (wide() && range.high < 2.0f * range.low) {
      const float width = range.high - range.low;
      const double part = static_cast<double>(below - needed) / static_cast<double>(below - range.above);
      const float place = range.low + width * static_cast<float>(part);
      probe(place - 0.05f * width), probe(place + 0.05f * width);
    }
  }
  while (wide()) probe(numerics::float_of((numerics::bits_of(range.low) + numerics::bits_of(range.high)) / 2));
  return range;
}

}  // namespace

Cut cut_of_weight(const kernels::KernelSet& set, std::span<const float> logits, const float* weights, uint64_t total,
                  uint64_t needed, std::vector<Candidate>& scratch) {
  const WeightRange range = range_of_weight(set, {weights, logits.size()}, total, needed, scratch);
  scratch.clear();
  const int n = static_cast<int>(logits.size());
  for (int begin = 0; begin < n; begin += kPlaces) {
    int32_t places[kPlaces];
    const int end = std::min(begin + kPlaces, n);
    const int count = set.weights_between(weights, begin, end, range.low, range.high, places);
    for (int i = 0; i < count; ++i) {
      const int32_t token = places[i];
      scratch.push_back({logits[static_cast<size_t>(token)], token, static_cast<uint32_t>(weights[token])});
    }
  }
  EADEM_CHECK(keep_weight(scratch, needed - range.above));
  const Candidate& last = *std::max_element(scratch.begin(), scratch.end(), before);
  return {last.logit, last.token};
}

void collect(std::span<const float> logits, float least, const float* weights, std::vector<Candidate>& out) {
  for (size_t i = 0; i < logits.size(); i += kTile) {
    const size_t n = std::min(kTile, logits.size() - i);
    if (!any_at_least(&logits[i], n, least)) continue;
    for (size_t j = i; j < i + n; ++j) {
      const uint32_t weight = weights != nullptr ? static_cast<uint32_t>(weights[j]) : 0;
      if (logits[j] >= least) out.push_back({logits[j], static_cast<int32_t>(j), weight});
    }
  }
}

void keep_first(std::vector<Candidate>& candidates, size_t k) {
  if (k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k), candidates.end(), before);
  candidates.resize(k);
}

void first_k(std::span<const float> logits, int k, std::vector<Candidate>& out) {
  // One pass. Whenever enough candidates have come together all but the first k go, and the last of those is the
  // bound from then on: a later token needs a larger logit, since its id is.
  const size_t count = static_cast<size_t>(k);
  const size_t full = std::max(2 * count, count + 4 * kTile);
  float bound = -std::numeric_limits<float>::infinity();
  out.clear();
  for (size_t i = 0; i < logits.size(); i += kTile) {
    const size_t n = std::min(kTile, logits.size() - i);
    if (!any_above(&logits[i], n, bound)) continue;
    for (size_t j = i; j < i + n; ++j) {
      if (logits[j] > bound) out.push_back({logits[j], static_cast<int32_t>(j), 0});
    }
    if (out.size() < full) continue;
    keep_first(out, count);
    bound = std::max_element(out.begin(), out.end(), before)->logit;
  }
  keep_first(out, count);
}

bool keep_weight(std::vector<Candidate>& candidates, uint64_t needed) {
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  if (total < needed) return false;
  // The end of the prefix lies in [begin, end); what is before begin weighs `taken`.
  auto begin = candidates.begin(), end = candidates.end();
  uint64_t taken = 0;
  while (end - begin > static_cast<ptrdiff_t>(kSmall)) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    uint64_t half = 0;
    for (auto c = begin; c != middle; ++c) half += c->weight;
    if (taken + half >= needed) {
      end = middle;
    } else {
      begin = middle;
      taken += half;
    }
  }
  std::sort(begin, end, before);
  while (taken < needed) {
    EADEM_CHECK(begin != end);
    taken += (begin++)->weight;
  }
  candidates.erase(begin, candidates.end());
  return true;
}

void sort_candidates(std::vector<Candidate>& candidates) { std::sort(candidates.begin(), candidates.end(), before); }

}  // namespace eadem::sampler
