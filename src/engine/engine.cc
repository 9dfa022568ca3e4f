#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/sha256.h"
#include "engine/check_request.h"
#include "engine/executor.h"
#include "engine/kv_cache.h"
#include "engine/pooling.h"
#include "engine/scheduler.h"
#include "engine/speculation.h"
#include "engine/step_runner.h"

namespace eadem::engine {
namespace {

// Where a row's attention costs as much as its linear layers. A product of attention counts half as much again as one
// of theirs: it is taken in wider numbers.
int64_t even_position(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  const int64_t hidden = config.hidden, heads = int64_t{config.heads} * config.head_size;
  const int64_t linear =
      hidden * (2 * heads + 2 * int64_t{config.kv_heads} * config.head_size + 3 * config.intermediate);
  const int64_t per_key = 2 * heads;
  return linear > 0 && per_key > 0 ? std::max<int64_t>(2 * linear / (3 * per_key), 1) : INT32_MAX;
}

SchedulerOptions scheduler_options(const model::Model& model, const Options& options) {
  SchedulerOptions chosen;
  chosen.max_batch = options.max_batch;
  chosen.chunk = options.prefill_chunk;
  chosen.max_rows = model.options().max_rows;
  chosen.mixed_chunk = options.mixed_chunk;
  chosen.even_position = even_position(model);
  return chosen;
}

// What a listener has still to be told.
struct News {
  enum class Kind : uint8_t { kStart, kPrompt, kToken, kEnd };
  Sequence* sequence = nullptr;
  Kind kind = Kind::kToken;
  SampledToken token;
  int64_t position = 0;  // kToken: of the row that drew it
  bool last = false;     // kToken: the engine ends the sequence here
  FinishReason reason = FinishReason::kStop;
  std::string error;
  std::string kv_hash;  // kToken: of a sequence that ended here, where its blocks were taken meanwhile
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(model::Model& model, const Options& options, Limits limits, model::KvPool pool, StepRunner runner)
      : model_(model),
        options_(options),
        limits_(limits),
        cache_(std::move(pool), options.prefix_cache, &counters_),
        scheduler_(scheduler_options(model, options), &cache_, &counters_),
        runner_(std::move(runner)) {
    scheduler_.before_preemption([this](const Sequence& sequence) { keep_hashes(sequence); });
    for (Step& step : steps_) step.accept_all = options.speculation.accept_all;
    if (options.async_scheduling) executor_.emplace();
  }
  ~EngineImpl() override;

  Result<void> init() {
    const int rows = std::min(options_.prefill_chunk, model_.options().max_rows);
    EADEM_ASSIGN_OR_RETURN(speculation_, Speculation::create(options_, model_, rows, cache_.blocks(), &counters_));
    return {};
  }

  Result<void> check(const SequenceRequest& request) const override { return check_request(request, limits_); }
  Result<SequenceId> submit(SequenceRequest request, Listener* listener) override;
  void cancel(SequenceId id) override;
  bool wait() override {
    run_ahead();
    return !executor_ || executor_->finish_or_wake();
  }
  void wake() override {
    if (executor_) executor_->wake();
  }
  void settle() override;
  bool step() override;

  const Counters& counters() const override { return counters_; }
  Load load() const override {
    return {static_cast<int>(scheduler_.running().size()), static_cast<int>(scheduler_.waiting().size()),
            cache_.blocks(), cache_.blocks() - cache_.free_blocks(), cache_.evictable_blocks()};
  }
  int kv_blocks() const override { return cache_.blocks(); }
  int free_blocks() const override { return cache_.free_blocks(); }
  void set_trace(model::TraceSink* trace) override { trace_ = trace; }
  SequenceId sequence_of(int index) const override {
    return steps_[oldest_].pieces[static_cast<size_t>(index)].sequence->id;
  }

 private:
  bool may_run_ahead() const;
  void run_ahead();
  void guess();
  bool launch();
  void finish_oldest();
  void commit();
  int right_end(const Step& step, const Piece& piece);
  void commit_piece(Step& step, const Piece& piece);
  void take(Sequence& sequence, int64_t position, Drawn& drawn);
  void take_prompt(Sequence& sequence);
  void end_overdue();
  bool is_preempted_for_test(const Sequence& sequence) const;
  void preempt_for_test();
  void tell();
  void tell_token(Sequence& sequence, const News& news);
  News& add_news(Sequence& sequence, News::Kind kind);
  void end(Sequence& sequence, FinishReason reason, std::string error = {});
  void tell_end(Sequence& sequence, FinishReason reason, const News& news);
  void keep_hashes(const Sequence& sequence);
  std::string kv_hash(const Sequence& sequence, int64_t positions) const;

  model::Model& model_;
  Options options_;
  Limits limits_;
  Counters counters_;
  KvCache cache_;
  Scheduler scheduler_;
  std::unique_ptr<Speculation> speculation_;  // null: off
  StepRunner runner_;
  std::array<Step, 2> steps_;
  size_t oldest_ = 0;       // of the steps under way
  size_t under_way_ = 0;    // steps that are launched and not committed
  std::vector<News> news_;  // in the order in which it happened
  std::vector<News> telling_;
  model::TraceSink* trace_ = nullptr;
  SequenceId last_id_ = 0;
  std::optional<Executor> executor_;  // with asynchronous scheduling. The last member: what it runs uses all others
};

Result<SequenceId> EngineImpl::submit(SequenceRequest request, Listener* listener) {
  EADEM_CHECK(listener != nullptr);
  EADEM_RETURN_IF_ERROR(check_request(request, limits_));
  const bool pooled = request.pooling != Pooling::kNone;
  if (pooled) request.sampling = {};
  auto sequence = std::make_unique<Sequence>();
  const SamplingParams& sampling = request.sampling;
  sequence->id = ++last_id_;
  sequence->seed = request.seed;
  sequence->wants_kv_hash = request.kv_hash;
  sequence->priority = request.priority;
  sequence->deadline = request.deadline;
  sequence->listener = listener;
  sequence->prompt = static_cast<int64_t>(request.prompt.size());
  // Of a pooled prompt every row is computed, and nothing after it.
  const int64_t answer_end = std::min(sequence->prompt + sampling.max_tokens, limits_.max_model_len);
  sequence->limit = pooled ? sequence->prompt + 1 : answer_end;
  if (!sampling.ignore_eos) sequence->stops = options_.eos;
  sequence->stops.insert(sequence->stops.end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  if (sampler::needs_counts(sampling)) sequence->counts.add_prompt(request.prompt);
  sequence->tokens = std::move(request.prompt);
  sequence->tokens.insert(sequence->tokens.end(), sampling.golden_token_ids.begin(), sampling.golden_token_ids.end());
  sequence->forced_end = static_cast<int64_t>(sequence->tokens.size());
  sequence->pooling = request.pooling;
  // A step under way reads the table: it must not move when it grows.
  sequence->table.reserve(static_cast<size_t>(sequence->limit / numerics::kKvBlock + 1));
  sequence->tokens.reserve(static_cast<size_t>(sequence->limit));
  sequence->next_logits = sequence->told_logits = sequence->prompt - 1;
  if (request.pooling == Pooling::kMean) sequence->next_logits = 0;
  sequence->sampling = std::move(request.sampling);
  if (request.guide != nullptr) sequence->guide = request.guide->clone();
  if (sequence->wants_prompt_logprobs()) {
    sequence->prompt_tokens.push_back({sequence->tokens[0], NAN, {}});
    sequence->next_logits = 0;
  }
  scheduler_.add(std::move(sequence));
  return last_id_;
}

void EngineImpl::cancel(SequenceId id) {
  const auto mark = [id](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->id == id) sequence->cancelled = true;
  };
  std::for_each(scheduler_.running().begin(), scheduler_.running().end(), mark);
  std::for_each(scheduler_.waiting().begin(), scheduler_.waiting().end(), mark);
}

EngineImpl::~EngineImpl() {
  executor_.reset();
  if (under_way_ > 1) model_.finish();  // it uses the pool
}

// Where nothing is under way, all that is known of a sequence is true: preemption and guesses happen there alone.
bool EngineImpl::step() {
  run_ahead();
  if (under_way_ > 0) commit();
  end_overdue();
  if (under_way_ == 0) {
    preempt_for_test();
    scheduler_.remove_finished();
    guess();
    scheduler_.schedule(steps_[oldest_]);
    if (launch() && !executor_) commit();
  }
  tell();
  scheduler_.remove_finished();
  if (under_way_ > 0 && !model_.draws()) scheduler_.prepare();
  return !scheduler_.idle();
}

// Whether the next step can be launched while one is under way. All that this one may say that counts for the next is
// what tokens it draws, and these are on the device already. Who turns out to have ended has a row too many in the next
// step: it counts for nobody, and its blocks are its own until that step is committed.
bool EngineImpl::may_run_ahead() const {
  if (!executor_ || !model_.draws() || !options_.run_ahead || under_way_ != 1) return false;
  if (!steps_[oldest_].stands_alone || speculation_ != nullptr || trace_ != nullptr) return false;
  if (!scheduler_.all_fit()) return false;
  const auto is_preempted = [this](const auto& sequence) { return is_preempted_for_test(*sequence); };
  return std::none_of(scheduler_.running().begin(), scheduler_.running().end(), is_preempted);
}

void EngineImpl::run_ahead() {
  if (!may_run_ahead()) return;
  scheduler_.remove_finished();
  scheduler_.schedule(steps_[oldest_ ^ 1]);
  if (launch()) ++counters_.ahead_steps;
}

// Nobody is given a block before the steps under way are committed, so what they still write harms nobody.
void EngineImpl::settle() {
  end_overdue();
  tell();
  scheduler_.release_finished();
}

// A trace shows each row once: nothing is guessed while there is one.
void EngineImpl::guess() {
  if (speculation_ == nullptr || trace_ != nullptr) return;
  const bool admits = static_cast<int>(scheduler_.running().size()) < options_.max_batch;
  const int64_t waiting = admits && !scheduler_.waiting().empty() ? scheduler_.waiting().front()->rows_wanted() : 0;
  speculation_->propose(scheduler_.running(), waiting);
}

// The step that was scheduled; false where it has no rows.
bool EngineImpl::launch() {
  Step& step = steps_[(oldest_ + under_way_) % 2];
  if (step.batch.rows.empty()) return false;
  for (const Piece& piece : step.pieces) {
    piece.sequence->under_way += piece.row_end - piece.row_begin;
    if (piece.draws_next) {
      ++piece.sequence->promised;
      piece.sequence->drawn_by = piece.output_end - 1;
    }
    if (!std::exchange(piece.sequence->start_told, true)) add_news(*piece.sequence, News::Kind::kStart);
  }
  ++counters_.steps;
  counters_.rows += step.batch.rows.size();
  counters_.max_rows = std::max<uint64_t>(counters_.max_rows, step.batch.rows.size());
  if (step.pieces.size() > 1) ++counters_.mixed_steps;
  if (!executor_ || model_.draws()) runner_.launch(step, cache_.pool(), trace_);
  if (++under_way_ == 1) finish_oldest();
  return true;
}

// On the executor's thread, where there is one: there the step of a model that does not draw is computed as well.
void EngineImpl::finish_oldest() {
  Step& step = steps_[oldest_];
  if (!executor_) return runner_.finish(step);
  executor_->launch([this, &step] {
    if (!model_.draws()) runner_.launch(step, cache_.pool(), trace_);
    runner_.finish(step);
  });
}

// What the rows of the first step under way say becomes known, in the order of its pieces.
void EngineImpl::commit() {
  if (executor_) executor_->finish();
  Step& step = steps_[oldest_];
  for (const Drawn& drawn : step.drawn) counters_.masked_rows += drawn.masked ? 1 : 0;
  for (const Piece& piece : step.pieces) commit_piece(step, piece);
  oldest_ ^= 1;
  if (--under_way_ > 0) finish_oldest();
}

// The end of the rows that count: those of known tokens and of right guesses.
int EngineImpl::right_end(const Step& step, const Piece& piece) {
  if (piece.draft_begin == piece.row_end) return piece.row_end;
  const int drafted = piece.row_end - piece.draft_begin;
  int accepted = 0;
  while (accepted < drafted && step.guessed_right(piece, piece.output_end - drafted + accepted)) ++accepted;
  speculation_->judge(*piece.sequence, drafted, accepted);
  return piece.draft_begin + accepted;
}

void EngineImpl::commit_piece(Step& step, const Piece& piece) {
  Sequence& sequence = *piece.sequence;
  sequence.under_way -= piece.row_end - piece.row_begin;
  if (piece.draws_next) --sequence.promised;
  // Its listener ended it while these rows were computed.
  if (sequence.finished) {
    counters_.discarded_rows += static_cast<uint64_t>(piece.row_end - piece.row_begin);
    return;
  }
  // What lies before a bad row is taken first: an answer that ends there never needed the row, and another chunk size
  // would not have computed it.
  const auto is_bad = [&](int row) { return step.bad[static_cast<size_t>(row)]; };
  const int row_end = right_end(step, piece);
  int good_end = piece.row_begin;
  while (good_end < row_end && !is_bad(good_end)) ++good_end;
  sequence.computed += std::min(good_end, piece.draft_begin) - piece.row_begin;
  for (int output = piece.output_begin; output < piece.output_end && !sequence.finished; ++output) {
    const int row = step.batch.outputs[static_cast<size_t>(output)];
    if (row >= good_end) break;
    // The token of a right guess is what the output before gave.
    if (row >= piece.draft_begin) ++sequence.computed;
    take(sequence, step.position_of(output), step.drawn[static_cast<size_t>(output)]);
  }
  sequence.most_computed = std::max(sequence.most_computed, sequence.computed);
  cache_.register_blocks(sequence);
  if (sequence.finished) return;
  if (good_end < row_end) {
    return end(sequence, FinishReason::kError,
               "the model's arithmetic left its range (a NaN or a huge attention score) at position " +
                   std::to_string(step.batch.rows[static_cast<size_t>(good_end)].position) +
                   " of this request; its weights are damaged or its prompt drives it out of range");
  }
  if (sequence.under_way == 0 && sequence.rows_wanted() == 0 && !sequence.cancelled) {
    take_prompt(sequence);
    end(sequence, FinishReason::kLength);
  }
}

// The token after `position`.
void EngineImpl::take(Sequence& sequence, int64_t position, Drawn& drawn) {
  if (!drawn.error.empty()) {
    return end(sequence, FinishReason::kError, drawn.error + " (position " + std::to_string(position + 1) + ")");
  }
  sequence.next_logits = position + 1;
  if (position + 1 < sequence.prompt) {
    sequence.prompt_tokens.push_back(std::move(drawn.token));
    return take_prompt(sequence);
  }
  take_prompt(sequence);
  const int64_t length = position + 2;
  const int32_t token = drawn.token.token;
  if (length > static_cast<int64_t>(sequence.tokens.size())) sequence.tokens.push_back(token);
  const bool is_stop = std::find(sequence.stops.begin(), sequence.stops.end(), token) != sequence.stops.end();
  const bool stops = (is_stop || drawn.complete) && length >= sequence.forced_end;
  const bool last = stops || length >= sequence.limit;
  News& news = add_news(sequence, News::Kind::kToken);
  news.token = std::move(drawn.token);
  news.position = position;
  news.last = last;
  if (last) end(sequence, stops ? FinishReason::kStop : FinishReason::kLength);
}

// Once, when all of the prompt's logprobs are there.
void EngineImpl::take_prompt(Sequence& sequence) {
  if (sequence.prompt_told || static_cast<int64_t>(sequence.prompt_tokens.size()) < sequence.prompt) return;
  sequence.prompt_told = true;
  add_news(sequence, News::Kind::kPrompt);
}

News& EngineImpl::add_news(Sequence& sequence, News::Kind kind) {
  News& news = news_.emplace_back();
  news.sequence = &sequence;
  news.kind = kind;
  return news;
}

void EngineImpl::end(Sequence& sequence, FinishReason reason, std::string error) {
  sequence.finished = true;
  News& news = add_news(sequence, News::Kind::kEnd);
  news.reason = reason;
  news.error = std::move(error);
}

// What was cancelled, what is late, and what never had a row to compute.
void EngineImpl::end_overdue() {
  const auto now = std::chrono::steady_clock::now();
  const auto look = [&](const std::unique_ptr<Sequence>& owned) {
    Sequence& sequence = *owned;
    if (sequence.finished) return;
    if (sequence.cancelled) return end(sequence, FinishReason::kCancelled);
    if (sequence.deadline && *sequence.deadline <= now) return end(sequence, FinishReason::kTimeout);
    if (sequence.under_way > 0 || sequence.rows_wanted() > 0) return;
    take_prompt(sequence);
    end(sequence, FinishReason::kLength);
  };
  std::for_each(scheduler_.running().begin(), scheduler_.running().end(), look);
  std::for_each(scheduler_.waiting().begin(), scheduler_.waiting().end(), look);
}

bool EngineImpl::is_preempted_for_test(const Sequence& sequence) const {
  return options_.force_preempt > 0 && !sequence.finished &&
         sequence.drawn() / options_.force_preempt > sequence.forced_preemptions;
}

void EngineImpl::preempt_for_test() {
  if (options_.force_preempt == 0) return;
  std::vector<Sequence*> preempted;
  for (const auto& sequence : scheduler_.running()) {
    if (is_preempted_for_test(*sequence)) preempted.push_back(sequence.get());
    sequence->forced_preemptions = sequence->drawn() / options_.force_preempt;
  }
  for (Sequence* sequence : preempted) scheduler_.preempt(*sequence);
}

// Listeners may submit and cancel meanwhile.
void EngineImpl::tell() {
  telling_.swap(news_);  // two vectors in turn keep their storage
  const auto is_token = [](const News& news) { return news.kind == News::Kind::kToken; };
  if (under_way_ > 0 && std::any_of(telling_.begin(), telling_.end(), is_token)) ++counters_.overlapped_steps;
  for (News& news : telling_) {
    Sequence& sequence = *news.sequence;
    if (sequence.told) continue;  // it ended at an earlier token
    if (news.kind == News::Kind::kStart) {
      sequence.listener->on_start();
    } else if (news.kind == News::Kind::kPrompt) {
      sequence.listener->on_prompt(std::move(sequence.prompt_tokens));
    } else if (news.kind == News::Kind::kToken) {
      tell_token(sequence, news);
    } else {
      tell_end(sequence, news.reason, news);
    }
  }
  telling_.clear();
}

void EngineImpl::tell_token(Sequence& sequence, const News& news) {
  sequence.told_logits = news.position + 1;
  if (!sequence.listener->on_token(news.token, news.last)) tell_end(sequence, FinishReason::kStop, news);
}

void EngineImpl::tell_end(Sequence& sequence, FinishReason reason, const News& news) {
  sequence.finished = sequence.told = true;
  Outcome outcome;
  outcome.reason = reason;
  outcome.error = news.error;
  outcome.cached_tokens = std::max(sequence.cached_tokens, 0);
  outcome.drafted_tokens = sequence.drafted;
  outcome.accepted_tokens = sequence.accepted;
  outcome.preemptions = sequence.preemptions;
  if (speculation_ != nullptr) speculation_->forget(sequence);
  const bool complete = reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (complete) outcome.embedding = embedding_of(sequence);
  if (complete && sequence.wants_kv_hash) {
    outcome.kv_hash = news.kv_hash.empty() ? kv_hash(sequence, sequence.told_logits) : news.kv_hash;
  }
  ++(complete                             ? counters_.finished
     : reason == FinishReason::kCancelled ? counters_.cancelled
     : reason == FinishReason::kTimeout   ? counters_.timed_out
                                          : counters_.failed);
  sequence.listener->on_finish(outcome);
}

// A listener may still end the sequence at any of the tokens that it was not told yet.
void EngineImpl::keep_hashes(const Sequence& sequence) {
  if (!sequence.wants_kv_hash) return;
  for (News& news : news_) {
    if (news.sequence == &sequence && news.kind == News::Kind::kToken) {
      news.kv_hash = kv_hash(sequence, news.position + 1);
    }
  }
}

// Of the positions before a token. A step under way writes to later ones.
std::string EngineImpl::kv_hash(const Sequence& sequence, int64_t positions) const {
  EADEM_CHECK(sequence.computed >= positions);
  Sha256 hash;
  const std::vector<uint16_t> operands = cache_.pool().read(sequence.table.data(), positions);
  hash.update(std::as_bytes(std::span(operands)));
  return hash.hex();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(model::Model& model, const Options& options) {
  EADEM_ASSIGN_OR_RETURN(const Limits limits, check_options(model, model.options().layout(), options));
  EADEM_ASSIGN_OR_RETURN(auto pool, create_kv_pool(model, limits.kv_blocks));
  EADEM_ASSIGN_OR_RETURN(auto runner, StepRunner::create(model));
  try {
    auto engine = std::make_unique<EngineImpl>(model, options, limits, std::move(pool), std::move(runner));
    EADEM_RETURN_IF_ERROR(engine->init());
    return std::unique_ptr<Engine>(std::move(engine));
  } catch (const std::system_error&) {
    return Error{
        "the system does not start another thread for asynchronous scheduling: raise its limit, or turn it off"};
  }
}

}  // namespace eadem::engine
