// Which rows the next step computes. Rows of sequences with a single row to compute come first; then, in order of
// arrival, up to a token budget of those with more; then waiting sequences are admitted, first come, first served.
// Nothing here can reach a result: it only cuts up work.
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
};

// The rows of one sequence in a step.
struct Piece {
  Sequence* sequence = nullptr;
  int row_begin = 0, row_end = 0;        // of Batch::rows
  int output_begin = 0, output_end = 0;  // of Batch::outputs
};

// What the sampler said of an output.
struct Drawn {
  SampledToken token;
  std::string error;
  bool complete = false;  // the guide lets nothing follow
  bool masked = false;    // by the guide
};

struct Step {
  model::Batch batch;
  std::vector<Piece> pieces;  // one for each of batch.tables, in the same order
  std::vector<Drawn> drawn;   // one for each of batch.outputs, filled by StepRunner

  int64_t position_of(int output) const {
    return batch.rows[static_cast<size_t>(batch.outputs[static_cast<size_t>(output)])].position;
  }
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, KvCache* cache, Counters* counters);

  void add(std::unique_ptr<Sequence> sequence);
  bool idle() const { return waiting_.empty() && running_.empty() && ended_.empty(); }
  // Fills `step`. It is empty where no running sequence has a row to compute.
  void schedule(Step& step);
  // Called with each sequence whose blocks are about to be taken.
  void before_preemption(std::function<void(const Sequence&)> watch) { before_preemption_ = std::move(watch); }
  // Takes a running sequence's blocks away; it waits and is recomputed. Its tokens stay.
  void preempt(Sequence& sequence);
  // Takes what is finished out of the queues and releases its blocks, and forgets those whose listeners know. What a
  // step under way computes stays.
  void remove_finished();

  // By arrival.
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }

 private:
  void schedule_running(Step& step, bool single);
  void admit(Step& step);
  bool admit_first(Step& step);
  // Gives a sequence up to `rows` rows of the step, as many as there are blocks for; takes blocks of younger ones
  // where there is none.
  void give_rows(Step& step, Sequence& sequence, int64_t rows);
  int64_t rows_that_fit(const Sequence& sequence, int64_t rows) const;
  bool preempt_youngest_after(const Sequence& sequence);
  void append(Step& step, Sequence& sequence, int64_t rows);
  int64_t budget_left(const Step& step) const;

  SchedulerOptions options_;
  KvCache* cache_;
  Counters* counters_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // by arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // by arrival
  std::vector<std::unique_ptr<Sequence>> ended_;    // finished; their listeners do not know yet
  std::function<void(const Sequence&)> before_preemption_;
  bool preempted_ = false;   // in this step
  int64_t single_rows_ = 0;  // of this step
};

}  // namespace eadem::engine
