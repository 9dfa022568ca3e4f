#include "sampler/sampler.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "numerics/sampling.h"
#include "sampler/race.h"

namespace eadem::sampler {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool is_finite(float x) { return x - x == 0.0f; }

uint64_t weigh(std::vector<Candidate>& candidates, float max) {
  uint64_t total = 0;
  for (Candidate& c : candidates) total += c.weight = numerics::nucleus_weight(c.logit, max);
  return total;
}

// The 256-lane sum of e^(logit - max) over the candidates; the other tokens would add +0 to their lanes.
float survivor_sum(std::vector<Candidate>& candidates, float max) {
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  float lanes[numerics::kLanes] = {};
  for (const Candidate& c : candidates) {
    float& lane = lanes[c.token % numerics::kLanes];
    lane = numerics::add_f32(lane, numerics::exp32(numerics::sub_f32(c.logit, max)));
  }
  return numerics::lane_tree(lanes);
}

void mask_others(std::span<const uint32_t> allowed, std::span<float> logits) {
  EADEM_CHECK(allowed.size() * 32 >= logits.size());
  for (size_t t = 0; t < logits.size(); ++t) {
    if ((allowed[t / 32] >> (t % 32) & 1u) == 0) logits[t] = kMinusInfinity;
  }
}

}  // namespace

Error not_finite() {
  return Error{"the logits of this position are not finite, or every token is masked; nothing can be drawn"};
}

bool needs_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

Sampler::Sampler(const kernels::KernelSet& set, int vocab)
    : set_(&set), vocab_(vocab), processed_(static_cast<size_t>(vocab)), weights_(static_cast<size_t>(vocab)) {
  // How many survive depends on the logits: a later row than the first would have to grow the list.
  survivors_.reserve(static_cast<size_t>(vocab));
}

Result<SampledToken> Sampler::draw(const Draw& draw) {
  SampledToken result;
  result.token = draw.forced;
  const bool raw = draw.logprobs >= 0 && !draw.processed;
  const bool processed = draw.logprobs >= 0 && draw.processed;
  kernels::LogSum log_sum{};
  if (raw) {
    log_sum = set_->log_sum(draw.logits, vocab_);
    if (!is_finite(log_sum.max)) return not_finite();
  }
  if (draw.forced < 0 || processed) {
    const float* logits = process(draw);
    const kernels::Largest max = set_->largest(logits, vocab_);
    if (max.nan || !is_finite(max.logit)) return not_finite();
    // The first of the total order survives every filter, so that a greedy draw needs none.
    const bool greedy = draw.params->temperature == 0.0f;
    const bool filtered = (processed || !greedy) && filter(*draw.params, logits, max.logit, processed);
    if (draw.forced < 0) result.token = greedy ? max.token : pick(draw, logits, max, filtered);
    if (processed) processed_logprobs(draw, logits, max.logit, filtered, result);
  }
  if (raw) raw_logprobs(draw, log_sum.max, log_sum.sum, result);
  return result;
}

const float* Sampler::process(const Draw& draw) {
  const SamplingParams& params = *draw.params;
  const bool divide = params.temperature != 0.0f && params.temperature != 1.0f;
  const bool penalise = draw.counts != nullptr && needs_counts(params);
  if (!divide && !penalise && params.logit_bias.empty() && draw.masked.empty() && draw.allowed.empty()) {
    return draw.logits;
  }
  float* l = processed_.data();
  const bool divide_alone = divide && !penalise && params.logit_bias.empty();
  if (!divide_alone) std::copy_n(draw.logits, vocab_, l);
  for (const auto& [token, bias] : params.logit_bias) l[token] = numerics::biased(l[token], bias);
  if (penalise) {
    for (const TokenCounts::Entry& seen : draw.counts->entries()) {
      float& x = l[seen.token];
      x = numerics::repetition_penalised(x, params.repetition_penalty);
      if (seen.outputs > 0) {
        x = numerics::output_penalised(x, seen.outputs, params.frequency_penalty, params.presence_penalty);
      }
    }
  }
  // A mask's -infinity stays one when it is divided, so that the division may come first: it is the pass that copies.
  if (divide) {
    const float* const from = divide_alone ? draw.logits : l;
    for (int i = 0; i < vocab_; ++i) l[i] = numerics::tempered(from[i], params.temperature);
  }
  for (const int32_t token : draw.masked) l[token] = kMinusInfinity;
  if (!draw.allowed.empty()) mask_others(draw.allowed, {l, static_cast<size_t>(vocab_)});
  return l;
}

void Sampler::top_p_cut(const SamplingParams& params, const float* logits, float max) {
  const uint64_t total = set_->top_p_weights(logits, vocab_, max, weights_.data());
  cut_ = cut_of_weight(*set_, {logits, static_cast<size_t>(vocab_)}, weights_.data(), total,
                       numerics::top_p_threshold(params.top_p, total), survivors_);
  survivors_.clear();
}

bool Sampler::filter(const SamplingParams& params, const float* logits, float max, bool list) {
  const std::span<const float> row(logits, static_cast<size_t>(vocab_));
  const bool top_k = params.top_k > 0 && params.top_k < vocab_;
  const bool top_p = params.top_p < 1.0f;
  const bool min_p = params.min_p > 0.0f;
  survivors_.clear();
  cut_ = {};
  if (top_k) first_k(row, params.top_k, survivors_);
  if (top_p && top_k) {
    EADEM_CHECK(keep_weight(survivors_, numerics::top_p_threshold(params.top_p, weigh(survivors_, max))));
  } else if (top_p) {
    top_p_cut(params, logits, max);
    if (!list && !min_p) return false;
    collect(row, cut_.logit, weights_.data(), survivors_);
    std::erase_if(survivors_, [&](const Candidate& c) { return !cut_.keeps(c.logit, c.token); });
  }
  if (min_p) {
    // The logarithm only bounds what is worth a look: a hundredth is far more than its error.
    if (!top_k && !top_p) collect(row, max + (numerics::log32(params.min_p) - 0.01f), nullptr, survivors_);
    std::erase_if(survivors_, [&](const Candidate& c) { return !numerics::reaches_min_p(c.logit, max, params.min_p); });
  }
  return top_k || top_p || min_p;
}

int32_t Sampler::pick(const Draw& draw, const float* logits, const kernels::Largest& max, bool listed) {
  Race race(draw.seed, static_cast<uint32_t>(draw.position));
  if (listed) {
    race.enter(survivors_);
  } else {
    race.enter_all(*set_, {logits, static_cast<size_t>(vocab_)}, max.token, cut_, race_);
  }
  EADEM_CHECK(race.winner() >= 0);
  return race.winner();
}

void Sampler::raw_logprobs(const Draw& draw, float max, float sum, SampledToken& result) {
  result.logprob = numerics::log_probability(draw.logits[result.token], max, sum);
  if (draw.logprobs == 0) return;
  first_k({draw.logits, static_cast<size_t>(vocab_)}, draw.logprobs, top_);
  list_top(max, sum, result);
}

void Sampler::processed_logprobs(const Draw& draw, const float* logits, float max, bool filtered,
                                 SampledToken& result) {
  const float sum = filtered ? survivor_sum(survivors_, max) : set_->log_sum(logits, vocab_).sum;
  bool survives = logits[result.token] != kMinusInfinity;
  if (filtered) {
    const auto is_it = [&](const Candidate& c) { return c.token == result.token; };
    survives = std::any_of(survivors_.begin(), survivors_.end(), is_it);
  }
  if (survives) result.logprob = numerics::log_probability(logits[result.token], max, sum);
  if (draw.logprobs == 0) return;
  if (filtered) {
    top_ = survivors_;
    keep_first(top_, static_cast<size_t>(draw.logprobs));
  } else {
    first_k({logits, static_cast<size_t>(vocab_)}, draw.logprobs, top_);
  }
  list_top(max, sum, result);
}

void Sampler::list_top(float max, float sum, SampledToken& result) {
  sort_candidates(top_);
  result.top.reserve(top_.size());
  for (const Candidate& c : top_) {
    result.top.push_back({c.token, numerics::log_probability(c.logit, max, sum)});
  }
}

}  // namespace eadem::sampler
