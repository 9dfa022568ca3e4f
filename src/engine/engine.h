// The engine: continuous batching over paged KV, on token ids alone (text is the layer above). engine.step() is
// schedule, run, commit, tell. One thread calls submit, cancel and step. With asynchronous scheduling a thread of the
// engine's own runs a step while the caller's tells listeners of the one before; on a device the next step is launched
// even before the one under way is finished. What comes out is the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "eadem/engine.h"
#include "eadem/request.h"
#include "eadem/result.h"
#include "engine/token_guide.h"
#include "model/model.h"

namespace eadem::engine {

inline constexpr int kMostDraft = 32;  // guesses of one sequence and step

class Drafter;

// Guesses at coming tokens (engine/speculation.h). Nothing of it can reach an answer.
struct SpeculationOptions {
  enum class Kind : uint8_t { kOff, kNgram, kDraft, kOther };
  Kind kind = Kind::kOff;
  int max_draft = 8;                    // guesses of a sequence and step
  model::Model* draft_model = nullptr;  // kDraft: must outlive the engine
  int draft_blocks = 0;                 // of the draft model's KV pool; 0: as many as the engine's
  std::shared_ptr<Drafter> drafter;     // kOther
  // Tests' handles: guesses are taken whatever they cost; every guess counts as right, so that answers change (the
  // negative control)
  bool eager = false, accept_all = false;
};

struct Options {
  int max_batch = 32;  // sequences that run at once
  // Rows of a step, at most the model's max_rows. Sequences with one row to compute come first and always get it; if
  // any other waits, it gets at least one.
  int prefill_chunk = 512;
  // Rows that others add to a step in which sequences have one row to compute, so that these are not held up for long;
  // a row counts the more the further back it looks. 0: chosen by a cost model (Scheduler).
  int mixed_chunk = 0;
  int kv_blocks = 0;  // blocks of 64 positions in the pool; 0: enough for max_batch sequences within kv_memory
  size_t kv_memory = size_t{1} << 30;  // bytes, where kv_blocks is 0
  int64_t max_model_len = 0;           // 0: the model's context
  bool prefix_cache = true;
  // A test's handle: every sequence is preempted each time it has drawn this many tokens (0: never)
  int force_preempt = 0;
  bool async_scheduling = false;  // a step runs while the one before is told
  bool run_ahead = true;          // with it, on a device: a step is launched while the one before runs
  std::vector<int32_t> eos;       // end-of-text tokens of the model
  SpeculationOptions speculation;
};

// How a sequence ended.
struct Outcome {
  FinishReason reason = FinishReason::kStop;
  std::string error;  // where reason is kError
  // Where asked: SHA-256 of KvPool::read over every position but the last token's, which was never computed
  std::string kv_hash;
  int cached_tokens = 0;                        // prompt tokens whose keys and values came from the prefix cache
  int drafted_tokens = 0, accepted_tokens = 0;  // guesses that were computed, and those that were right
  int preemptions = 0;
  std::vector<float> embedding;  // of a pooled request: [hidden], of length 1
};

// Follows one sequence. Called from inside step(), on its thread; may call submit and cancel.
class Listener {
 public:
  virtual ~Listener() = default;
  // The prompt's logprobs, once, where asked; the first token has none.
  virtual void on_prompt(std::vector<SampledToken> tokens) = 0;
  // A token was drawn (a stop token too, with `last` true where the engine itself ends here). Return false to stop
  // the sequence (a stop string was found).
  virtual bool on_token(const SampledToken& token, bool last) = 0;
  virtual void on_finish(const Outcome& outcome) = 0;
  // It left the queue for the first time.
  virtual void on_start() {}
};

using SequenceId = uint64_t;

// One answer: `sampling.n` and `sampling.stop` are the caller's business; `seed` is the answer's own, already mixed.
struct SequenceRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  uint64_t seed = 0;
  bool kv_hash = false;
  std::shared_ptr<const TokenGuide> guide = nullptr;              // at its beginning; where sampling.guide is set
  int priority = 0;                                               // smaller comes first
  std::optional<std::chrono::steady_clock::time_point> deadline;  // past it, it ends with what it has
  // Not kNone: an embedding of the prompt instead of an answer; `sampling` does not matter then.
  Pooling pooling = Pooling::kNone;
};

class Engine {
 public:
  // The model must outlive the engine.
  static Result<std::unique_ptr<Engine>> create(model::Model& model, const Options& options);
  virtual ~Engine() = default;

  // Checks the request against the model and the pool (prompt over the context, token out of vocabulary, bad
  // parameter, not enough blocks for one sequence). Safe from any thread, also during a step.
  virtual Result<void> check(const SequenceRequest& request) const = 0;
  // Takes a request that passes check(), else its error. `listener` must live until on_finish.
  virtual Result<SequenceId> submit(SequenceRequest request, Listener* listener) = 0;
  virtual void cancel(SequenceId id) = 0;
  // Returns true when the first step under way, if any, is computed: step() need not wait then. False: someone called
  // wake(). On a device it launches the next one first.
  virtual bool wait() = 0;
  virtual void wake() = 0;  // safe from any thread
  // While steps are under way: ends what is cancelled or late, and frees its blocks.
  virtual void settle() = 0;
  // One step. False where nothing is waiting or running. With asynchronous scheduling: takes the results of the step
  // under way, launches the next one (on a device, before that) and tells listeners of the former, so that the last
  // step is told one call later.
  virtual bool step() = 0;

  virtual const Counters& counters() const = 0;
  virtual Load load() const = 0;
  virtual int kv_blocks() const = 0;
  virtual int free_blocks() const = 0;  // blocks that no running sequence holds (cached ones count as free)
  virtual void set_trace(model::TraceSink* trace) = 0;
  // For a TraceSink, during a step: whose rows are those with Row::sequence == index.
  virtual SequenceId sequence_of(int index) const = 0;
};

}  // namespace eadem::engine
