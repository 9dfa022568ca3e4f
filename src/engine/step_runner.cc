#include "engine/step_runner.h"

#include <algorithm>
#include <utility>

#include "engine/pooling.h"

namespace eadem::engine {
namespace {

constexpr int kLogitRows = 64;   // rows whose logits are in memory at once
constexpr int kSampledRows = 4;  // outputs of a sequence that a worker samples in one go

}  // namespace

const kernels::KernelSet& kernels_of(const model::Model& model) {
  return model.options().kernels != nullptr ? *model.options().kernels : kernels::best_kernel_set();
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

void StepRunner::run(Step& step, model::KvPool& pool, model::TraceSink* trace) {
  step.drawn.assign(step.batch.outputs.size(), {});
  if (step.batch.rows.empty()) return;
  model_->forward(step.batch, pool, trace);
  for (const Piece& piece : step.pieces) pool_piece(piece, step.batch, *model_);
  sample(step);
}

void StepRunner::sample(Step& step) {
  const int outputs = static_cast<int>(step.batch.outputs.size());
  std::vector<OutputRange> ranges;
  for (int begin = 0; begin < outputs; begin += kLogitRows) {
    const int end = std::min(outputs, begin + kLogitRows);
    model_->logits(begin, end, logits_.as<float>());
    ranges.clear();
    for (const Piece& piece : step.pieces) {
      const int last = std::min(end, piece.output_end);
      // Penalties and guides know the tokens before a row, and a guess must be right: such rows go one after another.
      // Others know nothing of each other.
      const bool in_order = sampler::needs_counts(piece.sequence->sampling) || piece.sequence->guide != nullptr ||
                            piece.draft_begin < piece.row_end;
      const int at_once = in_order ? kLogitRows : kSampledRows;
      for (int o = std::max(begin, piece.output_begin); o < last; o += at_once) {
        ranges.push_back({&piece, o, std::min(last, o + at_once)});
      }
    }
    model_->pool().run(static_cast<int>(ranges.size()), [&](int index, int worker) {
      sample_outputs(step, ranges[static_cast<size_t>(index)], begin, worker);
    });
  }
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
    draw.params = &sequence.sampling;
    draw.seed = sequence.seed;
    draw.position = next;
    if (next < static_cast<int64_t>(sequence.tokens.size())) draw.forced = sequence.tokens[static_cast<size_t>(next)];
    // The prompt's tokens were drawn by nobody: their logprobs are always those of the raw logits.
    draw.logprobs = answers ? sequence.sampling.logprobs : sequence.sampling.prompt_logprobs;
    draw.processed = answers && sequence.sampling.processed_logprobs;
    if (sampler::needs_counts(sequence.sampling)) draw.counts = &sequence.counts;
    if (answers && next - sequence.prompt < sequence.sampling.min_tokens) draw.masked = sequence.stops;
    Drawn& drawn = step.drawn[static_cast<size_t>(output)];
    if (answers && sequence.guide != nullptr && !mask(sequence, draw, drawn, worker)) return;
    auto result = samplers_[static_cast<size_t>(worker)].draw(draw);
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
