#include "engine/step_runner.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/pooling.h"
#include "sampler/device_draw.h"

namespace eadem::engine {
namespace {

constexpr int kLogitRows = 64;   // rows whose logits are in memory at once
constexpr int kSampledRows = 4;  // outputs of a sequence that a worker samples in one go

// The draw of a sequence's token at position `next`, but for logits and grammar.
void describe(const Sequence& sequence, int64_t next, sampler::Draw& draw) {
  const bool answers = next >= sequence.prompt;
  draw.params = &sequence.sampling;
  draw.seed = sequence.seed;
  draw.position = next;
  if (next < static_cast<int64_t>(sequence.tokens.size())) draw.forced = sequence.tokens[static_cast<size_t>(next)];
  // The prompt's tokens were drawn by nobody: their logprobs are always those of the raw logits.
  draw.logprobs = answers ? sequence.sampling.logprobs : sequence.sampling.prompt_logprobs;
  draw.processed = answers && sequence.sampling.processed_logprobs;
  if (sampler::needs_counts(sequence.sampling)) draw.counts = &sequence.counts;
  if (answers && next - sequence.prompt < sequence.sampling.min_tokens) draw.masked = sequence.stops;
}

}  // namespace

const kernels::KernelSet& kernels_of(const model::Model& model) {
  return model.options().kernels != nullptr ? *model.options().kernels : kernels::best_kernel_set();
}

Result<model::KvPool> create_kv_pool(const model::Model& model, int blocks) {
  return model::KvPool::create(model.options().layout(), model.attention_shape(), model.config().layers, blocks,
                               model.options().device.get());
}

Result<StepRunner> StepRunner::create(model::Model& model) {
  const size_t row_bytes = static_cast<size_t>(model.config().vocab) * sizeof(float);
  EADEM_ASSIGN_OR_RETURN(auto logits, Buffer::allocate(row_bytes * kLogitRows, "the logits"));
  return StepRunner(model, std::move(logits));
}

StepRunner::StepRunner(model::Model& model, Buffer logits) : model_(&model), logits_(std::move(logits)) {
  for (int i = 0; i < model.pool().threads(); ++i) {
    samplers_.emplace_back(kernels_of(model), static_cast<int>(model.config().vocab));
    masks_.emplace_back((static_cast<size_t>(model.config().vocab) + 31) / 32);
  }
}

void StepRunner::launch(Step& step, model::KvPool& pool, model::TraceSink* trace) {
  plan_draws(step);
  const auto is_pooled = [](const Piece& piece) { return piece.sequence->pooling != Pooling::kNone; };
  const bool all_drawn = std::find(step.drawn_there.begin(), step.drawn_there.end(), false) == step.drawn_there.end() &&
                         step.drawn_there.size() == step.batch.outputs.size();
  step.stands_alone = model_->draws() && all_drawn && trace == nullptr &&
                      std::none_of(step.pieces.begin(), step.pieces.end(), is_pooled);
  model_->forward(step.batch, pool, trace);
}

void StepRunner::finish(Step& step) {
  step.drawn.assign(step.batch.outputs.size(), {});
  model_->finish();
  drawn_ = model_->drawn();  // once, before several workers read them
  const std::span<const bool> bad = model_->bad();
  step.bad.assign(bad.begin(), bad.end());
  for (const Piece& piece : step.pieces) pool_piece(piece, step.batch, *model_);
  sample(step);
}

// Leaves to the model the draws that need nothing but the logits of their own row.
void StepRunner::plan_draws(Step& step) {
  step.drawn_there.clear();
  step.batch.draws.clear();
  if (!model_->draws()) return;
  step.drawn_there.assign(step.batch.outputs.size(), false);
  bool any = false;
  for (const Piece& piece : step.pieces) {
    const Sequence& sequence = *piece.sequence;
    for (int output = piece.output_begin; output < piece.output_end; ++output) {
      sampler::Draw draw;
      describe(sequence, step.position_of(output) + 1, draw);
      const bool there = sampler::draws_alone(draw) && sequence.guide == nullptr;
      step.drawn_there[static_cast<size_t>(output)] = there;
      any = any || there;
      step.batch.draws.push_back(there ? sampler::device_draw(draw, model_->config().vocab) : kernels::DeviceDraw{});
    }
  }
  if (any) return;
  step.batch.draws.clear();
  step.drawn_there.clear();
}

void StepRunner::sample(Step& step) {
  const int outputs = static_cast<int>(step.batch.outputs.size());
  for (int begin = 0; begin < outputs; begin += kLogitRows) {
    const int end = std::min(outputs, begin + kLogitRows);
    const bool alone = fetch_logits(step, begin, end);
    ranges_.clear();
    for (const Piece& piece : step.pieces) {
      const int last = std::min(end, piece.output_end);
      // Penalties and guides know the tokens before a row, and a guess must be right: such rows go one after another.
      // Others know nothing of each other.
      const bool in_order = sampler::needs_counts(piece.sequence->sampling) || piece.sequence->guide != nullptr ||
                            piece.draft_begin < piece.row_end;
      const int at_once = in_order ? kLogitRows : kSampledRows;
      for (int o = std::max(begin, piece.output_begin); o < last; o += at_once) {
        ranges_.push_back({&piece, o, std::min(last, o + at_once)});
      }
    }
    sample_ranges(step, begin, alone);
  }
}

// The logits of outputs begin ... end - 1, as far as this machine draws. True: it draws none of them.
bool StepRunner::fetch_logits(const Step& step, int begin, int end) {
  const int64_t vocab = model_->config().vocab;
  if (step.drawn_there.empty()) {
    model_->logits(begin, end, logits_.as<float>());
    return false;
  }
  bool none = true;
  for (int output = begin; output < end; ++output) {
    if (step.drawn_there[static_cast<size_t>(output)]) continue;
    model_->logits(output, output + 1, logits_.as<float>() + (output - begin) * vocab);
    none = false;
  }
  return none;
}

void StepRunner::sample_ranges(Step& step, int first, bool alone) {
  const int count = static_cast<int>(ranges_.size());
  const auto sample_one = [&](int index, int worker) {
    sample_outputs(step, ranges_[static_cast<size_t>(index)], first, worker);
  };
  if (!alone) return model_->pool().run(count, std::cref(sample_one));
  // What is drawn already is not worth waking anyone for.
  for (int index = 0; index < count; ++index) sample_one(index, 0);
}

// `first`: the output whose logits lie first in memory.
void StepRunner::sample_outputs(Step& step, const OutputRange& range, int first, int worker) {
  Sequence& sequence = *range.piece->sequence;
  const int64_t vocab = model_->config().vocab;
  for (int output = range.begin; output < range.end && step.guessed_right(*range.piece, output); ++output) {
    const int64_t next = step.position_of(output) + 1;
    const bool answers = next >= sequence.prompt;
    sampler::Draw draw;
    draw.logits = logits_.as<float>() + (output - first) * vocab;
    describe(sequence, next, draw);
    Drawn& drawn = step.drawn[static_cast<size_t>(output)];
    if (answers && sequence.guide != nullptr && !mask(sequence, draw, drawn, worker)) return;
    auto result = step.drawn_there.empty() || !step.drawn_there[static_cast<size_t>(output)]
                      ? samplers_[static_cast<size_t>(worker)].draw(draw)
                      : sampler::read_drawn(draw, drawn_[static_cast<size_t>(output)]);
    if (!result.ok()) {
      drawn.error = result.error().message;
      return;
    }
    drawn.token = std::move(result).value();
    drawn.made = true;
    if (answers && draw.counts != nullptr) sequence.counts.add_output(drawn.token.token);
    if (answers && sequence.guide != nullptr && !advance(sequence, drawn)) return;
  }
}

// Which tokens the guide lets follow. A token that is given needs it for processed logprobs alone.
bool StepRunner::mask(Sequence& sequence, sampler::Draw& draw, Drawn& drawn, int worker) {
  if (draw.forced >= 0 && !(draw.processed && draw.logprobs >= 0)) return true;
  std::vector<uint32_t>& words = masks_[static_cast<size_t>(worker)];
  const auto masked = sequence.guide->mask(words);
  if (!masked.ok()) drawn.error = "guide: " + masked.error().message;
  draw.allowed = words;
  drawn.masked = masked.ok();
  return masked.ok();
}

bool StepRunner::advance(Sequence& sequence, Drawn& drawn) {
  const auto accepted = sequence.guide->accept(drawn.token.token);
  if (!accepted.ok()) drawn.error = "guide: " + accepted.error().message;
  drawn.complete = sequence.guide->finished();
  return accepted.ok();
}

}  // namespace eadem::engine
