#include "engine/scheduler.h"

#include <algorithm>

#include "core/check.h"

namespace eadem::engine {
namespace {

constexpr int64_t kBlock = numerics::kKvBlock;

template <class Container>
void insert_by_arrival(Container& sequences, std::unique_ptr<Sequence> sequence) {
  const auto later = [](const auto& a, const auto& b) { return a->id < b->id; };
  sequences.insert(std::upper_bound(sequences.begin(), sequences.end(), sequence, later), std::move(sequence));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, KvCache* cache, Counters* counters)
    : options_(options), cache_(cache), counters_(counters) {
  EADEM_CHECK(options.max_batch >= 1 && options.chunk >= 1 && options.max_rows >= options.max_batch);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

void Scheduler::schedule(Step& step) {
  step.batch.clear();
  step.pieces.clear();
  for (const auto& sequence : running_) sequence->scheduled = false;
  preempted_ = false;
  schedule_running(step, true);
  single_rows_ = static_cast<int64_t>(step.batch.rows.size());
  schedule_running(step, false);
  if (!preempted_) admit(step);
  counters_->max_sequences = std::max<uint64_t>(counters_->max_sequences, step.pieces.size());
}

// Single rows are never refused for the budget; the others share what is left of it, at least one row, so that
// nothing starves.
int64_t Scheduler::budget_left(const Step& step) const {
  const int64_t rows = static_cast<int64_t>(step.batch.rows.size());
  const int64_t budget = std::max<int64_t>(options_.chunk, single_rows_ + 1);
  return std::min<int64_t>(budget, options_.max_rows) - rows;
}

void Scheduler::schedule_running(Step& step, bool single) {
  // Preemption takes sequences off the end of running_, never one before `i` that is scheduled already.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const int64_t wanted = sequence.rows_wanted();
    if (sequence.scheduled || wanted < 1 || (single && wanted != 1)) continue;
    const int64_t rows = single ? 1 : std::min(wanted, budget_left(step));
    if (rows > 0) give_rows(step, sequence, rows);
  }
}

int64_t Scheduler::rows_that_fit(const Sequence& sequence, int64_t rows) const {
  const int64_t blocks = static_cast<int64_t>(sequence.table.size()) + cache_->free_blocks();
  return std::min(rows, blocks * kBlock - sequence.computed);
}

void Scheduler::give_rows(Step& step, Sequence& sequence, int64_t rows) {
  int64_t fit = rows_that_fit(sequence, rows);
  while (fit < 1 && preempt_youngest_after(sequence)) fit = rows_that_fit(sequence, rows);
  // Nothing to take: this sequence sits the step out. The oldest always gets its way, so somebody always moves on.
  if (fit >= 1) append(step, sequence, fit);
}

bool Scheduler::preempt_youngest_after(const Sequence& sequence) {
  for (auto victim = running_.rbegin(); victim != running_.rend() && (*victim)->id > sequence.id; ++victim) {
    if ((*victim)->scheduled || (*victim)->table.empty()) continue;
    preempt(**victim);
    return true;
  }
  return false;
}

void Scheduler::preempt(Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == &sequence; });
  EADEM_CHECK(it != running_.end());
  if (before_preemption_) before_preemption_(sequence);
  std::unique_ptr<Sequence> owned = std::move(*it);
  running_.erase(it);
  cache_->release(*owned);
  insert_by_arrival(waiting_, std::move(owned));
  preempted_ = true;
  ++counters_->preemptions;
}

void Scheduler::append(Step& step, Sequence& sequence, int64_t rows) {
  EADEM_CHECK(cache_->reserve(sequence.table, sequence.computed + rows));
  model::Batch& batch = step.batch;
  Piece piece;
  piece.sequence = &sequence;
  piece.row_begin = static_cast<int>(batch.rows.size());
  piece.output_begin = static_cast<int>(batch.outputs.size());
  for (int64_t p = sequence.computed; p < sequence.computed + rows; ++p) {
    if (p >= sequence.next_logits && sequence.pooling == Pooling::kNone)
      batch.outputs.push_back(static_cast<int32_t>(batch.rows.size()));
    batch.rows.push_back({static_cast<int32_t>(batch.tables.size()), sequence.tokens[p], p});
  }
  piece.row_end = static_cast<int>(batch.rows.size());
  piece.output_end = static_cast<int>(batch.outputs.size());
  batch.tables.push_back(sequence.table.data());
  step.pieces.push_back(piece);
  sequence.scheduled = true;
  const int64_t known = std::min(sequence.most_computed, sequence.computed + rows) - sequence.computed;
  if (known > 0) counters_->recomputed_tokens += static_cast<uint64_t>(known);
  // The first chunk ends inside the prompt: another step must follow.
  const int64_t end = std::min(sequence.prompt, sequence.computed + sequence.rows_wanted());
  if (sequence.most_computed == 0 && sequence.computed + rows < end) ++counters_->chunked_prompts;
}

void Scheduler::admit(Step& step) {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_batch && budget_left(step) > 0) {
    if (!admit_first(step)) return;
  }
}

bool Scheduler::admit_first(Step& step) {
  Sequence& sequence = *waiting_.front();
  cache_->take_cached(sequence);
  const bool worth_waiting = std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
    return cache_->computes_next_block(*other, sequence);
  });
  // Admission takes no blocks from those that run: all known rows must fit.
  const bool fits = rows_that_fit(sequence, sequence.rows_wanted()) == sequence.rows_wanted();
  if (worth_waiting || !fits) {
    EADEM_CHECK(!running_.empty());
    cache_->release(sequence);
    return false;
  }
  if (sequence.registered > 0) {
    ++counters_->prefix_hits;
    counters_->prefix_hit_tokens += static_cast<uint64_t>(sequence.computed);
  }
  if (sequence.cached_tokens < 0) {
    sequence.listener->on_start();
    sequence.cached_tokens = static_cast<int>(std::min(sequence.computed, sequence.prompt));
  }
  insert_by_arrival(running_, std::move(waiting_.front()));
  waiting_.pop_front();
  const int64_t rows = std::min(sequence.rows_wanted(), budget_left(step));
  if (rows > 0) append(step, sequence, rows);
  return true;
}

void Scheduler::remove_finished() {
  const auto take = [this](std::unique_ptr<Sequence>& sequence) {
    // A hash of keys and values is taken when the listener is told.
    if (!sequence->finished || sequence->under_way || (sequence->wants_kv_hash && !sequence->told)) return;
    cache_->release(*sequence);
    ended_.push_back(std::move(sequence));
  };
  std::for_each(running_.begin(), running_.end(), take);
  std::for_each(waiting_.begin(), waiting_.end(), take);
  std::erase(running_, nullptr);
  std::erase(waiting_, nullptr);
  std::erase_if(ended_, [](const auto& sequence) { return sequence->told; });
}

}  // namespace eadem::engine
