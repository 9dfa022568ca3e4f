#include "sampler/selection.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "numerics/sampling.h"

namespace eadem::sampler {
namespace {

constexpr size_t kTile = 256;  // logits that are looked at together, so that the compiler can use vectors
constexpr size_t kSmall = 32;  // candidates that are simply sorted

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

}  // namespace

Maximum maximum(std::span<const float> logits) {
  constexpr size_t kWidth = 16;
  float lanes[kWidth];
  std::fill_n(lanes, kWidth, -std::numeric_limits<float>::infinity());
  int nan = 0;
  const size_t whole = logits.size() / kWidth * kWidth;
  for (size_t i = 0; i < whole; i += kWidth) {
    for (size_t l = 0; l < kWidth; ++l) {
      const float x = logits[i + l];
      lanes[l] = x > lanes[l] ? x : lanes[l];
      nan |= x != x;
    }
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
    nan |= logits[i] != logits[i];
  }
  Maximum result{numerics::add_f32(*std::max_element(lanes, lanes + kWidth), 0.0f), 0, nan != 0};
  for (size_t i = 0; i < logits.size(); i += kTile) {
    const size_t n = std::min(kTile, logits.size() - i);
    if (!any_at_least(&logits[i], n, result.logit)) continue;
    for (size_t j = i;; ++j) {
      if (logits[j] >= result.logit) return result.token = static_cast<int32_t>(j), result;
    }
  }
  return result;
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
