// A smaller model guesses: it reads the same tokens and draws with the sequence's own parameters, seed and positions,
// so that a guess is right wherever the two models agree, also where the temperature is not 0. Its keys and values lie
// in a pool of its own; they follow the tokens that were kept, and are computed anew where they were lost.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/buffer.h"
#include "engine/drafter.h"
#include "engine/kv_cache.h"
#include "model/model.h"
#include "sampler/sampler.h"

namespace eadem::engine {

class ModelDrafter final : public Drafter {
 public:
  // `draft` guesses for `target` and must outlive the drafter. blocks: of its KV pool. Errors: the two vocabularies
  // differ in size, too little memory.
  static Result<std::unique_ptr<ModelDrafter>> create(model::Model& draft, const model::Model& target, int max_batch,
                                                      int blocks, Counters* counters);

  Outlook look(const Sequence& sequence) override;
  void propose(std::span<Proposal> proposals) override;
  void judge(const Sequence& sequence, int drafted, int accepted) override;
  void forget(SequenceId id) override;
  float cost() const override { return cost_; }

 private:
  // What is known of a sequence here. shadow.tokens are the sequence's, shadow.computed of them are in the pool.
  struct State {
    Sequence shadow;
    std::vector<int32_t> guessed;  // of the last proposal, computed behind shadow.tokens; the last of it is not
    Confidence confidence{0.7f, 8.0f};
    uint64_t last_used = 0;
  };

  // A proposal under way.
  struct Work {
    Proposal* proposal = nullptr;
    State* state = nullptr;
    bool done = false;
  };

  ModelDrafter(model::Model& draft, int batch, float cost, model::KvPool pool, Buffer logits, Counters* counters);
  void follow(State& state, const Sequence& sequence);
  bool reserve(State& state, int64_t positions);
  void catch_up(std::vector<Work>& works);
  void guess_next(std::vector<Work>& works);
  void run(std::vector<Work*>& drawing);
  void draw(Work& work, int output, int worker);

  model::Model& draft_;
  int batch_;  // sequences that guess at once
  float cost_;
  Counters own_;  // of the pool here, told nobody
  Counters* counters_;
  KvCache cache_;
  std::vector<sampler::Sampler> samplers_;  // by worker
  Buffer logits_;                           // float32 [batch_][vocab]
  model::Batch batch_rows_;
  std::unordered_map<SequenceId, State> states_;
  uint64_t clock_ = 0;  // proposals so far
};

}  // namespace eadem::engine
