#include "engine/scheduler.h"

#include <algorithm>

#include "core/check.h"

namespace eadem::engine {
namespace {

constexpr int64_t kBlock = numerics::kKvBlock;

// Each so many admissions, one of whoever has waited longest.
constexpr uint64_t kTurns = 8;
// What a step costs before its first row, in rows: the weights are read once.
constexpr int64_t kStepCost = 8;

int64_t blocks_of(int64_t positions) { return (positions + kBlock - 1) / kBlock; }

template <class Container>
void insert_in_order(Container& sequences, std::unique_ptr<Sequence> sequence) {
  const auto before = [](const auto& a, const auto& b) { return a->before(*b); };
  sequences.insert(std::upper_bound(sequences.begin(), sequences.end(), sequence, before), std::move(sequence));
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, KvCache* cache, Counters* counters)
    : options_(options), cache_(cache), counters_(counters) {
  EADEM_CHECK(options.max_batch >= 1 && options.chunk >= 1 && options.max_rows >= options.max_batch);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) { insert_in_order(waiting_, std::move(sequence)); }

void Scheduler::schedule(Step& step) {
  left_tables_.clear();
  step.batch.clear();
  step.pieces.clear();
  for (const auto& sequence : running_) sequence->scheduled = false;
  preempted_ = false;
  schedule_running(step, true);
  single_rows_ = static_cast<int64_t>(step.batch.rows.size());
  mixed_cost_ = 0;
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

int64_t Scheduler::mixed_budget() const {
  return options_.mixed_chunk > 0 ? options_.mixed_chunk : (kStepCost + single_rows_) * 3 / 2;
}

// Rows for a sequence that has more than one to compute, or was admitted only now. Beside single rows, a row at
// position p costs 1 + p / even_position; the first sequence always gets one, so that it moves on.
int64_t Scheduler::rows_allowed(const Step& step, const Sequence& sequence) {
  const int64_t rows = std::min(sequence.rows_wanted(), budget_left(step));
  if (single_rows_ == 0 || rows < 1) return rows;
  const int64_t left = std::max<int64_t>(mixed_budget() - mixed_cost_, 0);
  const int64_t even = options_.even_position;
  const int64_t cheap = left * even / (even + sequence.reached() + left);
  const int64_t allowed = std::min(rows, std::max<int64_t>(cheap, mixed_cost_ == 0 ? 1 : 0));
  mixed_cost_ += allowed + allowed * (sequence.reached() + allowed) / even;
  if (allowed < rows) ++counters_->held_chunks;
  return allowed;
}

void Scheduler::schedule_running(Step& step, bool single) {
  // Preemption takes sequences off the end of running_, never one before `i` that is scheduled already.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const int64_t wanted = sequence.rows_wanted();
    if (sequence.scheduled || wanted < 1 || (single && wanted != 1)) continue;
    const int64_t rows = single ? 1 : rows_allowed(step, sequence);
    if (rows > 0) give_rows(step, sequence, rows);
  }
}

int64_t Scheduler::rows_that_fit(const Sequence& sequence, int64_t rows) const {
  const int64_t blocks = static_cast<int64_t>(sequence.table.size()) + cache_->free_blocks();
  return std::min(rows, blocks * kBlock - sequence.reached());
}

void Scheduler::give_rows(Step& step, Sequence& sequence, int64_t rows) {
  int64_t fit = rows_that_fit(sequence, rows);
  while (fit < 1 && preempt_last_after(sequence)) fit = rows_that_fit(sequence, rows);
  // Nothing to take: this sequence sits the step out. The first always gets its way, so somebody always moves on.
  if (fit >= 1) append(step, sequence, fit);
}

bool Scheduler::preempt_last_after(const Sequence& sequence) {
  for (auto victim = running_.rbegin(); victim != running_.rend() && sequence.before(**victim); ++victim) {
    if ((*victim)->scheduled || (*victim)->table.empty()) continue;
    preempt(**victim);
    return true;
  }
  return false;
}

void Scheduler::preempt(Sequence& sequence) {
  const auto it = std::find_if(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == &sequence; });
  EADEM_CHECK(it != running_.end() && sequence.under_way == 0);
  if (before_preemption_) before_preemption_(sequence);
  std::unique_ptr<Sequence> owned = std::move(*it);
  ++owned->preemptions;
  owned->draft.clear();
  running_.erase(it);
  cache_->release(*owned);
  insert_in_order(waiting_, std::move(owned));
  preempted_ = true;
  ++counters_->preemptions;
}

void Scheduler::append(Step& step, Sequence& sequence, int64_t rows) {
  const int64_t begin = sequence.reached();
  EADEM_CHECK(cache_->reserve(sequence.table, begin + rows));
  model::Batch& batch = step.batch;
  Piece piece;
  piece.sequence = &sequence;
  piece.row_begin = static_cast<int>(batch.rows.size());
  piece.output_begin = static_cast<int>(batch.outputs.size());
  for (int64_t p = begin; p < begin + rows; ++p) {
    if (p >= sequence.next_logits && sequence.pooling == Pooling::kNone)
      batch.outputs.push_back(static_cast<int32_t>(batch.rows.size()));
    const bool known = p < static_cast<int64_t>(sequence.tokens.size());
    batch.rows.push_back({static_cast<int32_t>(batch.tables.size()), known ? sequence.tokens[p] : -1, p,
                          known ? -1 : sequence.drawn_by});
  }
  piece.draws_next = sequence.pooling == Pooling::kNone && begin + rows == sequence.length();
  piece.draft_begin = static_cast<int>(batch.rows.size());
  append_draft(step, piece, begin + rows);
  piece.row_end = static_cast<int>(batch.rows.size());
  piece.output_end = static_cast<int>(batch.outputs.size());
  batch.tables.push_back(sequence.table.data());
  step.pieces.push_back(piece);
  sequence.scheduled = true;
  const int64_t known = std::min(sequence.most_computed, begin + rows) - begin;
  if (known > 0) counters_->recomputed_tokens += static_cast<uint64_t>(known);
  // The first chunk ends inside the prompt: another step must follow.
  const int64_t end = std::min(sequence.prompt, begin + sequence.rows_wanted());
  if (sequence.most_computed == 0 && sequence.under_way == 0 && begin + rows < end) ++counters_->chunked_prompts;
}

// Guesses take no block that another running sequence may need in this step.
void Scheduler::append_draft(Step& step, Piece& piece, int64_t position) {
  Sequence& sequence = *piece.sequence;
  if (sequence.draft.empty()) return;
  int64_t blocks = static_cast<int64_t>(sequence.table.size());
  if (cache_->free_blocks() > static_cast<int>(running_.size())) ++blocks;
  const int64_t fit = std::min(static_cast<int64_t>(sequence.draft.size()), blocks * kBlock - position);
  EADEM_CHECK(position == static_cast<int64_t>(sequence.tokens.size()));
  EADEM_CHECK(cache_->reserve(sequence.table, position + fit));
  for (int64_t i = 0; i < fit; ++i) {
    step.batch.outputs.push_back(static_cast<int32_t>(step.batch.rows.size()));
    step.batch.rows.push_back({static_cast<int32_t>(step.batch.tables.size()), sequence.draft[i], position + i});
  }
  sequence.draft.clear();
}

void Scheduler::admit(Step& step) {
  const auto room = [&] { return budget_left(step) > 0 && (single_rows_ == 0 || mixed_cost_ < mixed_budget()); };
  while (!waiting_.empty() && live() < options_.max_batch && room()) {
    favour_longest_waiting();
    if (!admit_first(step)) return;
  }
}

// Sequences that run, without those that are only in a step under way yet.
int Scheduler::live() const {
  const auto lives = [](const auto& sequence) { return !sequence->finished; };
  return static_cast<int>(std::count_if(running_.begin(), running_.end(), lives));
}

void Scheduler::favour_longest_waiting() {
  if (turn_ % kTurns != kTurns - 1) return;
  const auto longest =
      std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  if (longest == waiting_.begin() || (*longest)->favoured) return;
  std::unique_ptr<Sequence> owned = std::move(*longest);
  waiting_.erase(longest);
  owned->favoured = true;
  insert_in_order(waiting_, std::move(owned));
  ++counters_->aged_admissions;
}

// Blocks that running sequences will need for the tokens that they have.
int64_t Scheduler::blocks_owed() const {
  int64_t owed = 0;
  for (const auto& sequence : running_) {
    const int64_t wanted = blocks_of(sequence->reached() + sequence->rows_wanted());
    owed += std::max<int64_t>(wanted - static_cast<int64_t>(sequence->table.size()), 0);
  }
  return owed;
}

bool Scheduler::admit_first(Step& step) {
  Sequence& sequence = *waiting_.front();
  cache_->take_cached(sequence);
  const bool worth_waiting = std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
    return cache_->computes_next_block(*other, sequence);
  });
  // Admission takes no blocks from those that run: all known rows must fit.
  const int64_t blocks = blocks_of(sequence.computed + sequence.rows_wanted());
  const bool fits = blocks - static_cast<int64_t>(sequence.table.size()) <= cache_->free_blocks() - blocks_owed();
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
    sequence.cached_tokens = static_cast<int>(std::min(sequence.computed, sequence.prompt));
  }
  if (waiting_.size() > 1) ++turn_;
  insert_in_order(running_, std::move(waiting_.front()));
  waiting_.pop_front();
  const int64_t rows = rows_allowed(step, sequence);
  if (rows > 0) append(step, sequence, rows);
  return true;
}

void Scheduler::prepare() {
  for (const auto& sequence : running_) {
    if (sequence->under_way == 0 || sequence->finished || sequence->cancelled) continue;
    const int64_t next = sequence->reached();
    const int64_t known = static_cast<int64_t>(sequence->tokens.size()) - next;
    const int64_t rows = std::clamp<int64_t>(known, 1, sequence->under_way);  // as many as now
    const int64_t end = std::min(next + rows, sequence->limit - 1);
    // The step under way reads the table: it must not move.
    const size_t had = sequence->table.size(), wanted = static_cast<size_t>(blocks_of(end));
    if (wanted <= had || wanted > sequence->table.capacity()) continue;
    if (!cache_->reserve(sequence->table, end)) return;
    counters_->prepared_blocks += sequence->table.size() - had;
  }
}

void Scheduler::release_finished() {
  for (const auto& sequence : running_) {
    if (!sequence->finished || sequence->table.empty() || (sequence->wants_kv_hash && !sequence->told)) continue;
    std::vector<int32_t> table = sequence->table;
    std::swap(table, sequence->table);  // the storage that the step knows leaves the sequence as it is
    cache_->release(*sequence);
    left_tables_.push_back(std::move(table));
  }
  remove_finished();
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
