// Computes a step: forward, pooled rows, logits, a token for each output. What it reads of a sequence does not change
// while the step is under way, and what it changes (its counts, its guide, its pooled rows) nobody else looks at then.
// Of a model that draws, launch() only queues the step, and finish() waits for it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "engine/scheduler.h"
#include "sampler/sampler.h"

namespace eadem::engine {

// The set by which this machine samples for a model.
const kernels::KernelSet& kernels_of(const model::Model& model);
// Memory for `blocks` blocks of a model's keys and values, where it runs.
Result<model::KvPool> create_kv_pool(const model::Model& model, int blocks);

class StepRunner {
 public:
  static Result<StepRunner> create(model::Model& model);

  // One thread at a time. A step that stands alone may be followed by the next launch before it is finished.
  void launch(Step& step, model::KvPool& pool, model::TraceSink* trace);
  // Fills step.drawn and step.bad; steps in the order of launches. Any one thread, also while the next step is
  // launched; the model's workers help.
  void finish(Step& step);

 private:
  // Outputs of one piece that one worker samples.
  struct OutputRange {
    const Piece* piece = nullptr;
    int begin = 0, end = 0;
  };

  StepRunner(model::Model& model, Buffer logits);
  void plan_draws(Step& step);
  void sample(Step& step);
  bool fetch_logits(const Step& step, int begin, int end);
  void sample_ranges(Step& step, int first, bool alone);
  void sample_outputs(Step& step, const OutputRange& range, int first, int worker);
  bool mask(Sequence& sequence, sampler::Draw& draw, Drawn& drawn, int worker);
  static bool advance(Sequence& sequence, Drawn& drawn);

  model::Model* model_;
  std::vector<sampler::Sampler> samplers_;    // by worker
  std::vector<std::vector<uint32_t>> masks_;  // by worker: a bit for each token
  Buffer logits_;                             // float32 [kLogitRows][vocab]
  std::span<const kernels::DeviceDrawn> drawn_;
  std::vector<OutputRange> ranges_;
};

}  // namespace eadem::engine
