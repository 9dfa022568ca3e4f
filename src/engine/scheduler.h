// Which rows the next step computes. Rows of sequences with a single row to compute come first; then, up to a budget,
// of those with more; then waiting sequences are admitted. Each in the order of Sequence::before: by priority, then by
// arrival. Nothing here can reach a result: it only cuts up work.
//
// Nobody starves: admission never passes over the first in that order, takes no blocks from who runs, and each eighth
// time that it has a choice the first is whoever has waited longest, which then stays ahead of all priorities until it
// ends. A sequence with m older ones waiting is so admitted after at most 8 (m + 1) others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace eadem::engine {

struct SchedulerOptions {
  int max_batch = 0;  // sequences that run at once
  int chunk = 0;      // rows of a step, unless more sequences than that have one row each
  int max_rows = 0;   // rows that the model can take; at least max_batch
  // What other rows may cost beside single ones (Scheduler::rows_allowed). 0: one and a half times what the step costs
  // without them, so that no token comes later than after two and a half times as long.
  int mixed_chunk = 0;
  int64_t even_position = 1;  // position at which a row's attention costs as much as the rest of it
};

// The rows of one sequence in a step.
struct Piece {
  Sequence* sequence = nullptr;
  int row_begin = 0, row_end = 0;        // of Batch::rows
  int draft_begin = 0;                   // the rows from here on are of tokens that are only guessed; row_end: none
  int output_begin = 0, output_end = 0;  // of Batch::outputs
  bool draws_next = false;               // the last row of a known token draws one that is not known yet
};

// What the sampler said of an output.
struct Drawn {
  SampledToken token;
  std::string error;
  bool made = false;      // `token` is there
  bool complete = false;  // the guide lets nothing follow
  bool masked = false;    // by the guide
};

struct Step {
  model::Batch batch;
  std::vector<Piece> pieces;  // one for each of batch.tables, in the same order
  std::vector<Drawn> drawn;   // one for each of batch.outputs, filled by StepRunner
  std::vector<bool> bad;      // one for each of batch.rows, likewise: its request fails

  // Filled by StepRunner::launch. Whether the model draws it, by output; empty where it draws none.
  std::vector<bool> drawn_there;
  // All that the step gives comes from the model by itself: another may be launched before this one is finished.
  bool stands_alone = false;

  bool accept_all = false;  // SpeculationOptions::accept_all

  // Whether an output's row stands where it would stand without guesses: its token is known, or is what the row before
  // it drew. Asked of the outputs of a piece in order.
  bool guessed_right(const Piece& piece, int output) const {
    const int row = batch.outputs[static_cast<size_t>(output)];
    if (row < piece.draft_begin) return true;
    const Drawn& before = drawn[static_cast<size_t>(output) - 1];
    return before.made && (before.token.token == batch.rows[static_cast<size_t>(row)].token || accept_all);
  }
  int64_t position_of(int output) const {
    return batch.rows[static_cast<size_t>(batch.outputs[static_cast<size_t>(output)])].position;
  }
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, KvCache* cache, Counters* counters);

  void add(std::unique_ptr<Sequence> sequence);
  bool idle() const { return waiting_.empty() && running_.empty() && ended_.empty(); }
  // Fills `step`. It is empty where no running sequence has a row to compute. While a step is computed all_fit() must
  // hold, and a row's token may be one that this step draws (Row::drawn_by).
  void schedule(Step& step);
  // There are blocks for all rows that running sequences want, and no step under way writes to any that is free.
  bool all_fit() const { return blocks_owed() <= cache_->free_blocks() && left_tables_.empty(); }
  // Called with each sequence whose blocks are about to be taken.
  void before_preemption(std::function<void(const Sequence&)> watch) { before_preemption_ = std::move(watch); }
  // Takes a running sequence's blocks away; it waits and is recomputed. Its tokens stay.
  void preempt(Sequence& sequence);
  // Takes what is finished out of the queues and releases its blocks, and forgets those whose listeners know. What a
  // step under way computes stays.
  void remove_finished();
  // While a step is computed: releases the blocks of all that is finished, also of what it computes. prepare() must not
  // follow before the step is done: it would hand out blocks that are still written to.
  void release_finished();
  // While a step is computed: gives its sequences the blocks that their next rows will need, as far as there are free
  // ones, so that the next step need not wait until these are cleared.
  void prepare();

  // By Sequence::before.
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }

 private:
  void schedule_running(Step& step, bool single);
  void admit(Step& step);
  void favour_longest_waiting();
  int64_t blocks_owed() const;
  bool admit_first(Step& step);
  int live() const;
  // Gives a sequence up to `rows` rows of the step, as many as there are blocks for; takes blocks of those behind it
  // where there is none.
  void give_rows(Step& step, Sequence& sequence, int64_t rows);
  int64_t rows_that_fit(const Sequence& sequence, int64_t rows) const;
  bool preempt_last_after(const Sequence& sequence);
  void append(Step& step, Sequence& sequence, int64_t rows);
  void append_draft(Step& step, Piece& piece, int64_t position);
  int64_t budget_left(const Step& step) const;
  int64_t mixed_budget() const;
  int64_t rows_allowed(const Step& step, const Sequence& sequence);

  SchedulerOptions options_;
  KvCache* cache_;
  Counters* counters_;
  std::deque<std::unique_ptr<Sequence>> waiting_;  // by Sequence::before, like running_
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<std::unique_ptr<Sequence>> ended_;   // finished; their listeners do not know yet
  std::vector<std::vector<int32_t>> left_tables_;  // of released sequences; a step under way reads them
  std::function<void(const Sequence&)> before_preemption_;
  bool preempted_ = false;   // in this step
  int64_t single_rows_ = 0;  // of this step
  int64_t mixed_cost_ = 0;   // of this step's other rows
  uint64_t turn_ = 0;        // admissions that had a choice
};

}  // namespace eadem::engine
