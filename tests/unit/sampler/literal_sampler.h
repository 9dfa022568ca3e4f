// The sampler as the specification reads, with a full sort and noise for every survivor: the oracle of the fast one.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "numerics/sampling.h"
#include "numerics/vector_sum.h"
#include "sampler/sampler.h"

namespace eadem::testing {

struct Literal {
  std::vector<float> logits;
  std::vector<int32_t> order;  // survivors, in the total order
};

inline std::vector<int32_t> total_order(const std::vector<float>& l) {
  std::vector<int32_t> order(l.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return l[a] > l[b]; });
  return order;
}

inline std::vector<float> literal_step1(const sampler::Draw& d, int vocab) {
  std::vector<float> l(d.logits, d.logits + vocab);
  const SamplingParams& p = *d.params;
  for (const auto& [token, bias] : p.logit_bias) l[token] += bias;
  if (d.counts != nullptr) {
    for (const auto& e : d.counts->entries()) {
      l[e.token] = l[e.token] > 0 ? l[e.token] / p.repetition_penalty : l[e.token] * p.repetition_penalty;
    }
    for (const auto& e : d.counts->entries()) {
      if (e.outputs > 0) l[e.token] = std::fma(-p.frequency_penalty, float(e.outputs), l[e.token]) - p.presence_penalty;
    }
  }
  for (int32_t t : d.masked) l[t] = -INFINITY;
  if (p.temperature != 0) {
    for (float& x : l) x /= p.temperature;
  }
  return l;
}

// ceil(p * total) in long double's 64 bits would not be exact: 128-bit integers are.
__extension__ using Wide = unsigned __int128;
inline uint64_t literal_needed(float p, uint64_t total) {
  int exponent = 0;
  const double fraction = std::frexp(double(p), &exponent);                  // p = fraction * 2^exponent
  const auto significand = static_cast<uint64_t>(std::ldexp(fraction, 24));  // p = significand * 2^(exponent - 24)
  const Wide product = Wide{significand} * total;
  const int shift = 24 - exponent;
  if (shift >= 127) return product != 0;
  return static_cast<uint64_t>((product >> shift) + ((product & ((Wide{1} << shift) - 1)) != 0));
}

inline std::vector<int32_t> literal_step2(const SamplingParams& p, const std::vector<float>& l) {
  std::vector<int32_t> order = total_order(l);
  const float max = l[order[0]];
  std::erase_if(order, [&](int32_t t) { return l[t] == -INFINITY; });
  if (p.top_k > 0) order.resize(std::min(order.size(), size_t(p.top_k)));
  if (p.top_p < 1) {
    const auto weight = [&](int32_t t) { return uint64_t(std::rint(numerics::exp32(l[t] - max) * 2147483648.0f)); };
    uint64_t total = 0, sum = 0;
    for (int32_t t : order) total += weight(t);
    const uint64_t needed = literal_needed(p.top_p, total);
    size_t count = 0;
    while (sum < needed) sum += weight(order[count++]);
    order.resize(count);
  }
  if (p.min_p > 0) std::erase_if(order, [&](int32_t t) { return !(numerics::exp32(l[t] - max) >= p.min_p); });
  return order;
}

inline int32_t literal_step3(const sampler::Draw& d, const std::vector<float>& l,
                             const std::vector<int32_t>& survivors) {
  if (d.params->temperature == 0) return survivors[0];
  std::vector<bool> survives(l.size());
  for (int32_t t : survivors) survives[t] = true;
  int32_t best = -1;
  float best_score = -INFINITY;
  for (int32_t t = 0; t < int32_t(l.size()); ++t) {
    if (!survives[t]) continue;
    const uint64_t group = uint64_t(t) >> 2;
    const auto block = numerics::philox4x32_10(d.seed, uint32_t(group), uint32_t(d.position), 0, 0);
    float w = std::fma(float(block.word[t & 3]), 0x1p-32f, 0x1p-33f);
    w = std::min(w, 1.0f - 0x1p-24f);
    const float score = l[t] + -numerics::log32(-numerics::log1p32(-w));
    if (best < 0 || score > best_score) best = t, best_score = score;
  }
  return best;
}

inline void literal_logprobs(const sampler::Draw& d, std::vector<float> l, SampledToken& out) {
  const std::vector<int32_t> order = total_order(l);
  const float max = l[order[0]] + 0.0f;  // +0 for either zero
  std::vector<float> terms(l.size());
  for (size_t i = 0; i < l.size(); ++i) terms[i] = numerics::exp32(l[i] - max);
  const float log_sum = numerics::log32(numerics::vector_sum(terms.data(), int(terms.size())));
  const auto logprob = [&](int32_t t) { return l[t] == -INFINITY && d.processed ? NAN : (l[t] - max) - log_sum; };
  out.logprob = logprob(out.token);
  for (int32_t t : order) {
    if (int(out.top.size()) == d.logprobs || l[t] == -INFINITY) break;
    out.top.push_back({t, logprob(t)});
  }
}

inline SampledToken literal_draw(const sampler::Draw& d, int vocab) {
  const std::vector<float> raw(d.logits, d.logits + vocab);
  const std::vector<float> l = literal_step1(d, vocab);
  const std::vector<int32_t> survivors = literal_step2(*d.params, l);
  SampledToken out;
  out.token = d.forced >= 0 ? d.forced : literal_step3(d, l, survivors);
  if (d.logprobs < 0) return out;
  if (!d.processed) {
    literal_logprobs(d, raw, out);
  } else {
    std::vector<float> masked(l.size(), -INFINITY);
    for (int32_t t : survivors) masked[t] = l[t];
    literal_logprobs(d, masked, out);
  }
  return out;
}

}  // namespace eadem::testing
