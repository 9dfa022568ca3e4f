// Prefixes of the total order (logit descending, token id ascending) without sorting a vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.h"

namespace eadem::sampler {

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
  uint32_t weight = 0;  // numerics::top_p_weight, where a caller needs it
};

// The last token of a prefix of the total order.
struct Cut {
  float logit = -__builtin_inff();
  int32_t token = INT32_MAX;

  bool keeps(float l, int32_t t) const { return l > logit || (l == logit && t <= token); }
};

// The last token of the shortest prefix whose weights (KernelSet::top_p_weights, whose sum is `total`) sum to at least
// `needed`, 1 <= needed <= total. scratch: room for what lies near it.
Cut cut_of_weight(const kernels::KernelSet& set, std::span<const float> logits, const float* weights, uint64_t total,
                  uint64_t needed, std::vector<Candidate>& scratch);

// Appends the tokens with logit >= least, ids ascending. weights: [logits.size()] or null.
void collect(std::span<const float> logits, float least, const float* weights, std::vector<Candidate>& out);

// The first k >= 1 of the total order, in no particular order; fewer where fewer logits are above -infinity.
void first_k(std::span<const float> logits, int k, std::vector<Candidate>& out);

// Keeps the first k of `candidates`, in no particular order.
void keep_first(std::vector<Candidate>& candidates, size_t k);

// Keeps the shortest prefix whose weights sum to at least `needed` (>= 1), in no particular order. False where all of
// them do not (then `candidates` keeps every element).
bool keep_weight(std::vector<Candidate>& candidates, uint64_t needed);

// Into the total order.
void sort_candidates(std::vector<Candidate>& candidates);

}  // namespace eadem::sampler
