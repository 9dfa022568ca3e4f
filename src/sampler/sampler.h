// From a row of logits to a token and its logprobs. A pure function of (logits, parameters, seed, position, counts):
// nothing about any other row is an input. The order of the steps is the specification's (docs/numerics.md, "Logprobs
// and sampling"):
//
//   raw logprobs
//   1. bias; repetition penalty over prompt and output; frequency and presence penalty over the output; masks (end of
// text and stop
//      tokens before min_tokens, a grammar); division by the temperature
//   2. top-k, top-p, min-p: each a condition on the total order (logit descending, token id ascending)
//   3. temperature 0: the first; else the largest logit + Gumbel noise of (seed, position, token)
//   processed logprobs: over what step 2 left
//
// Which tokens are looked at is a plan: those that provably cannot survive, or cannot win the draw, are skipped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "eadem/request.h"
#include "eadem/result.h"
#include "kernels/kernel_set.h"
#include "sampler/race.h"
#include "sampler/selection.h"
#include "sampler/token_counts.h"

namespace eadem::sampler {

// One token to draw, or to judge where it is given.
struct Draw {
  const float* logits = nullptr;           // [vocab] float32, as the model gave them
  const SamplingParams* params = nullptr;  // checked (check_params)
  uint64_t seed = 0;                       // of this answer: mixed already
  int64_t position = 0;                    // absolute position of the token drawn
  const TokenCounts* counts = nullptr;     // null: no penalty is on
  // Tokens that may not be drawn here; sampling and processed logprobs alone see it
  std::span<const int32_t> masked;
  // A grammar: token t may be drawn where bit t % 32 of word t / 32 is set. Empty: every one may. Seen like `masked`
  std::span<const uint32_t> allowed;
  int32_t forced = -1;     // the token that is given (forced continuation, scoring); -1: draw one
  int logprobs = -1;       // -1: none; k: the token's own and the k first of the total order
  bool processed = false;  // logprobs after steps 1 to 3 instead of raw ones
};

// Why a draw fails.
Error not_finite();

// Whether a request needs TokenCounts at all.
bool needs_counts(const SamplingParams& params);

// The first fault of a request's sampling fields, named as the API names them. vocab: tokens of the model.
Result<void> check_params(const SamplingParams& params, int64_t vocab);

// Holds scratch memory, so one per thread. Must run in the contract's floating-point environment (FpEnvironment,
// ThreadPool).
class Sampler {
 public:
  Sampler(const kernels::KernelSet& set, int vocab);

  // Fails where a logit is NaN, or where the largest is not finite: nothing could be drawn.
  Result<SampledToken> draw(const Draw& draw);

 private:
  // Step 1: the logits to choose from; `draw.logits` themselves where nothing changes them.
  const float* process(const Draw& draw);
  // Step 2. True: survivors_ holds what is left. False: every token with a finite logit that cut_ keeps is; `list` says
  // that a list is wanted of what a cut leaves.
  bool filter(const SamplingParams& params, const float* logits, float max, bool list);
  void top_p_cut(const SamplingParams& params, const float* logits, float max);
  int32_t pick(const Draw& draw, const float* logits, const kernels::Largest& max, bool listed);
  void raw_logprobs(const Draw& draw, float max, float sum, SampledToken& result);
  void processed_logprobs(const Draw& draw, const float* logits, float max, bool filtered, SampledToken& result);
  void list_top(float max, float sum, SampledToken& result);

  const kernels::KernelSet* set_;
  int vocab_;
  std::vector<float> processed_;  // [vocab]
  std::vector<float> weights_;    // [vocab] integers
  std::vector<Candidate> survivors_;
  Cut cut_;
  RaceScratch race_;
  std::vector<Candidate> top_;
};

}  // namespace eadem::sampler
