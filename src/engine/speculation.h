// Speculative decoding: guesses at what a sequence says next are computed as extra rows of the ordinary batch, in the
// step that computes its last token. Each row is sampled as always; a row counts only where the row before it drew the
// very token that was guessed. So the answer cannot change: a right guess gives several tokens in one step, a wrong one
// has cost a row.
//
// How many guesses a step takes is decided by the chance that they are right and by what more rows cost, never by a
// clock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace eadem::engine {

// What a step over `rows` rows costs, where one over a single row costs 1. Measured (docs/performance.md); convex.
float step_cost(int64_t rows);

class Speculation {
 public:
  // rows: most rows of a step. blocks: of the engine's KV pool. Null where `options` say off. Errors name the option.
  static Result<std::unique_ptr<Speculation>> create(const Options& options, const model::Model& model, int rows,
                                                     int blocks, Counters* counters);

  // Before a step is scheduled: fills Sequence::draft. waiting_rows: that the first of the waiting sequences lacks.
  void propose(std::span<const std::unique_ptr<Sequence>> running, int64_t waiting_rows);
  // After a step: `drafted` guesses were computed, and the first `accepted` of them were what was drawn.
  void judge(Sequence& sequence, int drafted, int accepted);
  void forget(const Sequence& sequence) { drafter_->forget(sequence.id); }

 private:
  // A sequence that may guess.
  struct Candidate {
    Sequence* sequence = nullptr;
    Outlook outlook;
    int granted = 0;
  };

  Speculation(std::shared_ptr<Drafter> drafter, const SpeculationOptions& options, int rows, int64_t vocab,
              Counters* counters)
      : drafter_(std::move(drafter)),
        max_draft_(options.max_draft),
        eager_(options.eager),
        rows_(rows),
        vocab_(vocab),
        counters_(counters) {}
  int room(const Sequence& sequence) const;
  void grant(int64_t rows, int64_t singles);
  void take(Sequence& sequence, std::span<const int32_t> guesses) const;

  std::shared_ptr<Drafter> drafter_;
  int max_draft_;
  bool eager_;
  int rows_;
  int64_t vocab_;
  Counters* counters_;
  std::vector<Candidate> candidates_;  // of the step
  std::vector<Proposal> proposals_;
};

}  // namespace eadem::engine
