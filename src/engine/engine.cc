#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/check.h"
#include "core/sha256.h"
#include "engine/check_request.h"
#include "engine/kv_cache.h"
#include "engine/scheduler.h"
#include "sampler/sampler.h"

namespace eadem::engine {
namespace {

constexpr int kLogitRows = 64;   // rows whose logits are in memory at once
constexpr int kSampledRows = 4;  // outputs of a sequence that a worker samples in one go

class EngineImpl final : public Engine {
 public:
  EngineImpl(model::Model& model, const Options& options, Limits limits, model::KvPool pool, Buffer logits)
      : model_(model),
        options_(options),
        limits_(limits),
        cache_(std::move(pool), options.prefix_cache, &counters_),
        scheduler_({options.max_batch, options.prefill_chunk, model.options().max_rows}, &cache_, &counters_),
        logits_(std::move(logits)) {
    for (int i = 0; i < model_.pool().threads(); ++i) {
      samplers_.emplace_back(kernels_of(model), static_cast<int>(model.config().vocab));
      masks_.emplace_back((static_cast<size_t>(model.config().vocab) + 31) / 32);
    }
  }

  static const kernels::KernelSet& kernels_of(const model::Model& model) {
    return model.options().kernels != nullptr ? *model.options().kernels : kernels::best_kernel_set();
  }

  Result<void> check(const SequenceRequest& request) const override { return check_request(request, limits_); }
  Result<SequenceId> submit(SequenceRequest request, Listener* listener) override;
  void cancel(SequenceId id) override;
  bool step() override;

  const Counters& counters() const override { return counters_; }
  Load load() const override {
    return {static_cast<int>(scheduler_.running().size()), static_cast<int>(scheduler_.waiting().size()),
            cache_.blocks(), cache_.blocks() - cache_.free_blocks()};
  }
  int kv_blocks() const override { return cache_.blocks(); }
  int free_blocks() const override { return cache_.free_blocks(); }
  void set_trace(model::TraceSink* trace) override { trace_ = trace; }
  SequenceId sequence_of(int index) const override { return step_.pieces[static_cast<size_t>(index)].sequence->id; }

 private:
  // Outputs of one sequence that one worker samples.
  struct OutputRange {
    Sequence* sequence = nullptr;
    int begin = 0, end = 0;
  };
  // What the sampler said of an output.
  struct Drawn {
    SampledToken token;
    std::string error;
    bool complete = false;  // the guide lets nothing follow
    bool masked = false;    // by the guide
  };

  int64_t position_of(int output) const {
    return step_.batch.rows[static_cast<size_t>(step_.batch.outputs[static_cast<size_t>(output)])].position;
  }
  void run();
  void sample();
  void sample_outputs(const OutputRange& range, int first, int worker);
  bool mask(Sequence& sequence, sampler::Draw& draw, Drawn& drawn, int worker);
  bool advance(Sequence& sequence, Drawn& drawn);
  void commit();
  void commit_piece(const Piece& piece);
  void deliver(Sequence& sequence, int64_t position, Drawn& drawn);
  void tell_prompt(Sequence& sequence);
  void collect();
  void finish(Sequence& sequence, FinishReason reason, std::string error = {});
  std::string kv_hash(const Sequence& sequence);

  model::Model& model_;
  Options options_;
  Limits limits_;
  Counters counters_;
  KvCache cache_;
  Scheduler scheduler_;
  std::vector<sampler::Sampler> samplers_;    // by worker
  std::vector<std::vector<uint32_t>> masks_;  // by worker: a bit for each token
  Buffer logits_;                             // float32 [kLogitRows][vocab]
  Step step_;
  std::vector<Drawn> drawn_;  // by output of the step
  model::TraceSink* trace_ = nullptr;
  SequenceId last_id_ = 0;
};

Result<SequenceId> EngineImpl::submit(SequenceRequest request, Listener* listener) {
  EADEM_CHECK(listener != nullptr);
  EADEM_RETURN_IF_ERROR(check_request(request, limits_));
  auto sequence = std::make_unique<Sequence>();
  const SamplingParams& sampling = request.sampling;
  sequence->id = ++last_id_;
  sequence->seed = request.seed;
  sequence->wants_kv_hash = request.kv_hash;
  sequence->priority = request.priority;
  sequence->deadline = request.deadline;
  sequence->listener = listener;
  sequence->prompt = static_cast<int64_t>(request.prompt.size());
  sequence->limit = std::min(sequence->prompt + sampling.max_tokens, limits_.max_model_len);
  if (!sampling.ignore_eos) sequence->stops = options_.eos;
  sequence->stops.insert(sequence->stops.end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  if (sampler::needs_counts(sampling)) sequence->counts.add_prompt(request.prompt);
  sequence->tokens = std::move(request.prompt);
  sequence->tokens.insert(sequence->tokens.end(), sampling.golden_token_ids.begin(), sampling.golden_token_ids.end());
  sequence->forced_end = static_cast<int64_t>(sequence->tokens.size());
  sequence->next_logits = sequence->prompt - 1;
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

bool EngineImpl::step() {
  scheduler_.schedule(step_);
  run();
  sample();
  commit();
  collect();
  return !scheduler_.idle();
}

void EngineImpl::run() {
  if (step_.batch.rows.empty()) return;
  model_.forward(step_.batch, cache_.pool(), trace_);
  ++counters_.steps;
  counters_.rows += step_.batch.rows.size();
  counters_.max_rows = std::max<uint64_t>(counters_.max_rows, step_.batch.rows.size());
  if (step_.pieces.size() > 1) ++counters_.mixed_steps;
}

void EngineImpl::sample() {
  const int outputs = static_cast<int>(step_.batch.outputs.size());
  drawn_.assign(static_cast<size_t>(outputs), {});
  std::vector<OutputRange> ranges;
  for (int begin = 0; begin < outputs; begin += kLogitRows) {
    const int end = std::min(outputs, begin + kLogitRows);
    model_.logits(begin, end, logits_.as<float>());
    ranges.clear();
    for (const Piece& piece : step_.pieces) {
      const int last = std::min(end, piece.output_end);
      // Penalties and guides know the tokens before a row, so such rows go one after another; others know nothing of
      // each other.
      const bool in_order = sampler::needs_counts(piece.sequence->sampling) || piece.sequence->guide != nullptr;
      const int at_once = in_order ? kLogitRows : kSampledRows;
      for (int o = std::max(begin, piece.output_begin); o < last; o += at_once) {
        ranges.push_back({piece.sequence, o, std::min(last, o + at_once)});
      }
    }
    model_.pool().run(static_cast<int>(ranges.size()), [&](int index, int worker) {
      sample_outputs(ranges[static_cast<size_t>(index)], begin, worker);
    });
  }
}

// `first`: the output whose logits lie first in memory.
void EngineImpl::sample_outputs(const OutputRange& range, int first, int worker) {
  Sequence& sequence = *range.sequence;
  const int64_t vocab = model_.config().vocab;
  for (int output = range.begin; output < range.end; ++output) {
    const int64_t next = position_of(output) + 1;
    const bool answers = next >= sequence.prompt;
    sampler::Draw draw;
    draw.logits = logits_.as<float>() + (output - first) * vocab;
    draw.params = &sequence.sampling;
    draw.seed = sequence.seed;
    draw.position = next;
    if (next < static_cast<int64_t>(sequence.tokens.size())) draw.forced = sequence.tokens[static_cast<size_t>(next)];
    // The prompt's tokens were drawn by nobody: their logprobs are always those of the raw logits.
    draw.logprobs = answers ? sequence.sampling.logprobs : sequence.sampling.prompt_logprobs;
    draw.processed = answers && sequence.sampling.processed_logprobs;
    if (sampler::needs_counts(sequence.sampling)) draw.counts = &sequence.counts;
    if (answers && next - sequence.prompt < sequence.sampling.min_tokens) draw.masked = sequence.stops;
    Drawn& drawn = drawn_[static_cast<size_t>(output)];
    if (answers && sequence.guide != nullptr && !mask(sequence, draw, drawn, worker)) return;
    auto result = samplers_[static_cast<size_t>(worker)].draw(draw);
    if (!result.ok()) {
      drawn.error = result.error().message;
      return;
    }
    drawn.token = std::move(result).value();
    if (answers && draw.counts != nullptr) sequence.counts.add_output(drawn.token.token);
    if (answers && sequence.guide != nullptr && !advance(sequence, drawn)) return;
  }
}

// Which tokens the guide lets follow. A token that is given needs it for processed logprobs alone.
bool EngineImpl::mask(Sequence& sequence, sampler::Draw& draw, Drawn& drawn, int worker) {
  if (draw.forced >= 0 && !(draw.processed && draw.logprobs >= 0)) return true;
  std::vector<uint32_t>& words = masks_[static_cast<size_t>(worker)];
  const auto masked = sequence.guide->mask(words);
  if (!masked.ok()) drawn.error = "guide: " + masked.error().message;
  draw.allowed = words;
  drawn.masked = masked.ok();
  return masked.ok();
}

bool EngineImpl::advance(Sequence& sequence, Drawn& drawn) {
  const auto accepted = sequence.guide->accept(drawn.token.token);
  if (!accepted.ok()) drawn.error = "guide: " + accepted.error().message;
  drawn.complete = sequence.guide->finished();
  return accepted.ok();
}

void EngineImpl::commit() {
  for (const Drawn& drawn : drawn_) counters_.masked_rows += drawn.masked ? 1 : 0;
  for (const Piece& piece : step_.pieces) commit_piece(piece);
}

void EngineImpl::commit_piece(const Piece& piece) {
  Sequence& sequence = *piece.sequence;
  // What lies before a bad row is delivered first: an answer that ends there never needed the row, and another chunk
  // size would not have computed it.
  const auto is_bad = [&](int row) { return model_.bad()[static_cast<size_t>(row)]; };
  int good_end = piece.row_begin;
  while (good_end < piece.row_end && !is_bad(good_end)) ++good_end;
  sequence.computed += good_end - piece.row_begin;
  sequence.most_computed = std::max(sequence.most_computed, sequence.computed);
  cache_.register_blocks(sequence);
  for (int output = piece.output_begin; output < piece.output_end && !sequence.finished; ++output) {
    if (step_.batch.outputs[static_cast<size_t>(output)] >= good_end) break;
    deliver(sequence, position_of(output), drawn_[static_cast<size_t>(output)]);
  }
  if (good_end == piece.row_end || sequence.finished) return;
  finish(sequence, FinishReason::kError,
         "the model's arithmetic left its range (a NaN or a huge attention score) at position " +
             std::to_string(step_.batch.rows[static_cast<size_t>(good_end)].position) +
             " of this request; its weights are damaged or its prompt drives it out of range");
}

// Tells the listener of the token after `position`.
void EngineImpl::deliver(Sequence& sequence, int64_t position, Drawn& drawn) {
  if (!drawn.error.empty()) {
    return finish(sequence, FinishReason::kError, drawn.error + " (position " + std::to_string(position + 1) + ")");
  }
  sequence.next_logits = position + 1;
  if (position + 1 < sequence.prompt) {
    sequence.prompt_tokens.push_back(std::move(drawn.token));
    return tell_prompt(sequence);
  }
  tell_prompt(sequence);
  const int64_t length = position + 2;
  if (length > static_cast<int64_t>(sequence.tokens.size())) sequence.tokens.push_back(drawn.token.token);
  const bool is_stop =
      std::find(sequence.stops.begin(), sequence.stops.end(), drawn.token.token) != sequence.stops.end();
  const bool stops = (is_stop || drawn.complete) && length >= sequence.forced_end;
  const bool last = stops || length >= sequence.limit;
  const bool goes_on = sequence.listener->on_token(drawn.token, last);
  if (stops || !goes_on) return finish(sequence, FinishReason::kStop);
  if (last) finish(sequence, FinishReason::kLength);
}

// Once, when all of the prompt's logprobs are there.
void EngineImpl::tell_prompt(Sequence& sequence) {
  if (sequence.prompt_told || static_cast<int64_t>(sequence.prompt_tokens.size()) < sequence.prompt) return;
  sequence.prompt_told = true;
  sequence.listener->on_prompt(std::move(sequence.prompt_tokens));
}

void EngineImpl::collect() {
  const auto now = std::chrono::steady_clock::now();
  const auto late = [&](const Sequence& sequence) { return sequence.deadline && *sequence.deadline <= now; };
  std::vector<Sequence*> preempted;
  for (const auto& sequence : scheduler_.running()) {
    if (sequence->finished) continue;
    if (sequence->cancelled) {
      finish(*sequence, FinishReason::kCancelled);
    } else if (late(*sequence)) {
      finish(*sequence, FinishReason::kTimeout);
    } else if (sequence->rows_wanted() == 0) {
      tell_prompt(*sequence);
      finish(*sequence, FinishReason::kLength);
    } else if (options_.force_preempt > 0) {
      const int64_t due = sequence->drawn() / options_.force_preempt;
      if (due > sequence->forced_preemptions) preempted.push_back(sequence.get());
      sequence->forced_preemptions = due;
    }
  }
  // By index: a listener may submit.
  for (size_t i = 0; i < scheduler_.waiting().size(); ++i) {
    Sequence& sequence = *scheduler_.waiting()[i];
    if (sequence.finished) continue;
    if (sequence.cancelled) {
      finish(sequence, FinishReason::kCancelled);
    } else if (late(sequence)) {
      finish(sequence, FinishReason::kTimeout);
    }
  }
  for (Sequence* sequence : preempted) scheduler_.preempt(*sequence);
  scheduler_.remove_finished();
}

void EngineImpl::finish(Sequence& sequence, FinishReason reason, std::string error) {
  sequence.finished = true;
  Outcome outcome;
  outcome.reason = reason;
  outcome.error = std::move(error);
  outcome.cached_tokens = std::max(sequence.cached_tokens, 0);
  const bool complete = reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (complete && sequence.wants_kv_hash) outcome.kv_hash = kv_hash(sequence);
  ++(complete                             ? counters_.finished
     : reason == FinishReason::kCancelled ? counters_.cancelled
     : reason == FinishReason::kTimeout   ? counters_.timed_out
                                          : counters_.failed);
  sequence.listener->on_finish(outcome);
}

// Positions before the last token that was told: what a longer forced continuation computed beyond it does not count.
std::string EngineImpl::kv_hash(const Sequence& sequence) {
  EADEM_CHECK(sequence.computed >= sequence.next_logits);
  Sha256 hash;
  const std::vector<uint16_t> operands = cache_.pool().read(sequence.table.data(), sequence.next_logits);
  hash.update(std::as_bytes(std::span(operands)));
  return hash.hex();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(model::Model& model, const Options& options) {
  EADEM_ASSIGN_OR_RETURN(const Limits limits, check_options(model, EngineImpl::kernels_of(model), options));
  EADEM_ASSIGN_OR_RETURN(auto pool, model::KvPool::create(EngineImpl::kernels_of(model), model.attention_shape(),
                                                          model.config().layers, limits.kv_blocks));
  const size_t row_bytes = static_cast<size_t>(model.config().vocab) * sizeof(float);
  EADEM_ASSIGN_OR_RETURN(auto logits, Buffer::allocate(row_bytes * kLogitRows, "the logits"));
  return std::unique_ptr<Engine>(
      std::make_unique<EngineImpl>(model, options, limits, std::move(pool), std::move(logits)));
}

}  // namespace eadem::engine
