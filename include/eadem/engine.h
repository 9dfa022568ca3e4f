// The public face: open a model, ask, get answers. One Engine serves many requests at once (continuous batching); an
// answer is a function of its request, the model and the numerics alone. Not thread-safe: one thread calls, the
// engine's own workers compute.
//
//   auto engine = eadem::Engine::open({.model = "smollm2-135m"});
//   eadem::Request request;
//   request.prompt_token_ids = engine.value().tokenize("The capital of France is").value();
//   for (const auto& answer : engine.value().generate(request).value()) std::puts(answer.text.c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/expected.h"
#include "eadem/request.h"
#include "eadem/result.h"

namespace eadem {

struct EngineOptions {
  std::string model;              // a directory, a .gguf or .safetensors file, or the name of a pulled model
  std::string numerics = "auto";  // auto, mma16, fma32, int8
  // "contract", or "free": sums in whatever order suits the batch and the threads, as engines without a contract take
  // it. The control that a test of invariance must fail on, and the yardstick of what the contract costs.
  std::string mode = "contract";
  std::string device = "cpu";          // cpu, cuda or cuda:N
  std::string isa = "auto";            // auto: the best this machine has; or a kernel set by name (eadem info)
  int threads = 0;                     // 0: one per core
  int max_batch = 32;                  // sequences that run at once
  int prefill_chunk = 512;             // most rows of a step
  int mixed_chunk = 0;                 // rows of prompts in a step that others draw tokens in; 0: by a cost model
  int kv_blocks = 0;                   // KV blocks of 64 positions; 0: as many as kv_memory holds
  size_t kv_memory = size_t{1} << 30;  // bytes
  int64_t max_model_len = 0;           // positions; 0: the model's context
  bool prefix_cache = true;
  std::string speculation = "off";  // guesses at coming tokens: off, ngram (prompt lookup), draft (draft_model)
  std::string draft_model;          // a smaller model with the same tokenizer, named like `model`
  int max_draft = 8;                // guesses of a sequence and step
  int force_preempt = 0;            // test handle: preempt a sequence each time it has drawn this many tokens; 0: never
  bool force_draft = false;         // test handle: guesses are computed whatever they cost
  // A step runs on a thread of its own while the callbacks of the one before are called. Off where there is a trace.
  bool async_scheduling = false;
  bool kv_hash = false;       // fill Completion::kv_hash
  std::string trace_file;     // a digest of each row, layer and op goes here; empty: none
  std::string chat_template;  // text of a template that stands in for the model's own; empty: the model's
  // Digests of files are kept in the cache folder (docs/fingerprint.md); true: hash every weight again all the same.
  bool recheck_weights = false;
  std::string replica;  // which of many like engines this is; its digest is told in deployment_parts()
};

// What an opened model is.
struct ModelInfo {
  std::string path, format, family;
  std::string numerics;  // full name, e.g. "fma32-v1"; "fma32-free" in free mode
  std::string mode;      // "contract" or "free"
  std::string isa;       // kernel set in use
  int threads = 0;
  int64_t vocab = 0, context = 0, max_model_len = 0;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0;
  size_t weight_bytes = 0, kv_bytes = 0;
  int kv_blocks = 0;
  std::vector<int32_t> eos_token_ids;
  bool has_tokenizer = false, has_chat_template = false;
};

// What is known of the model's text side; empty where the model has none.
struct TextInfo {
  std::string bos_token, eos_token, unk_token, pad_token;  // as the vocabulary spells them
  std::string chat_template;                               // Jinja source
};

// What happened so far, so that a test can prove that the path it is about was taken.
struct Counters {
  uint64_t steps = 0, rows = 0, mixed_steps = 0;  // mixed: rows of more than one sequence
  uint64_t chunked_prompts = 0;                   // prompts that took more than one step
  uint64_t prefix_hit_tokens = 0, prefix_hits = 0, prefix_evictions = 0;
  uint64_t preemptions = 0, recomputed_tokens = 0;
  uint64_t finished = 0, failed = 0, cancelled = 0, timed_out = 0;
  uint64_t max_rows = 0, max_sequences = 0;  // largest step seen
  uint64_t aged_admissions = 0;              // of the one that had waited longest, before better priorities
  uint64_t held_chunks = 0;                  // pieces of prompts cut short for the sake of those that draw tokens
  uint64_t prepared_blocks = 0;              // KV blocks made ready while the step before was computed
  uint64_t overlapped_steps = 0;             // computed while the tokens of the one before were told
  uint64_t ahead_steps = 0;                  // launched before the one before was finished, on a device
  uint64_t discarded_rows = 0;               // computed for a sequence that a listener had ended meanwhile
  uint64_t masked_rows = 0;                  // rows that a guide masked
  // Guesses computed, those that were right, and how often a sequence had some in a step
  uint64_t drafted_tokens = 0, accepted_tokens = 0, draft_checks = 0;
  uint64_t draft_steps = 0, draft_rows = 0, draft_rebuilds = 0;  // the draft model's work; keys and values it lost
  uint64_t kernel_calls = 0;                                     // kernels of the set in use that ran
};

// Called from inside step().
struct Callbacks {
  // A token of answer `index`, with the text it completes (possibly none: a character or a stop string may be under
  // way). Return false to end that answer.
  std::function<bool(int index, const SampledToken& token, std::string_view text)> on_token;
  // All answers of the request, by index.
  std::function<void(std::vector<Completion> answers)> on_done;
  // The prompt's tokens with their logprobs, before the first token of answer `index`; only where prompt_logprobs asks.
  std::function<void(int index, const std::vector<SampledToken>& tokens)> on_prompt;
  // The first of its answers left the queue: its rows are computed from now on. At most once.
  std::function<void()> on_start = nullptr;
};

// What an engine holds between two steps.
struct Load {
  int running = 0, waiting = 0;           // sequences
  int kv_blocks = 0, kv_blocks_used = 0;  // held by sequences that run: nobody can take those of the prefix cache
  int kv_blocks_evictable = 0;            // of the prefix cache alone: free for whoever needs them
};

class Engine {
 public:
  static Result<Engine> open(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const ModelInfo& info() const;
  // BLAKE3, 64 hexadecimal digits, over everything that may move bits: weights, tokenizer, template, end tokens,
  // numerics, sampler.
  const std::string& identity() const;
  // What the identity is a digest of: RFC 8785 JSON of strings, one digest or name for each part.
  const std::string& identity_parts() const;
  // Likewise over everything that is proven to move no bit (program, machine, plan), so that a difference under equal
  // identity can be traced; and what it is a digest of: RFC 8785 JSON of strings and integers.
  const std::string& deployment() const;
  const std::string& deployment_parts() const;
  // The same and more as CycloneDX 1.7 JSON: the model as a machine-learning model with the digests of its files, how
  // it is computed, the program and its libraries. The first call reads the model's files, unless the cache knows
  // their digests. Safe from every thread.
  std::string bill_of_materials() const;
  // The model's own sampling defaults (generation_config.json), where it has any.
  const SamplingParams& default_sampling() const;

  const TextInfo& text() const;

  // Text. Errors: the model has no tokenizer or template; a template that fails.
  Result<std::vector<int32_t>> tokenize(std::string_view text, bool add_special_tokens = true) const;
  // The bytes that a token stands for inside a text: not always whole characters. Empty without a tokenizer.
  std::string_view token_bytes(int32_t token) const;
  // The token as the vocabulary spells it. Empty without a tokenizer.
  std::string_view token_text(int32_t token) const;
  // A token that skip_special_tokens leaves out of the text.
  bool is_special(int32_t token) const;
  Result<std::string> detokenize(std::span<const int32_t> tokens, bool skip_special_tokens = true) const;
  // messages, tools, kwargs: JSON texts of an array, an array or empty, an object or empty. Rendered as transformers
  // would, with the generation prompt; tokenize the result with add_special_tokens = false.
  Result<std::string> render_chat(const std::string& messages, const std::string& tools = {},
                                  const std::string& kwargs = {}) const;

  // Whether answers can be held to this guide; compiles it, and keeps it for the request to come. Errors say what it
  // asks that cannot be expressed, or that it would cost too much. Safe from every thread.
  Result<void> check_guide(const Guide& guide) const;

  // Blocks until the request's answers are done. Errors: the request itself is at fault (names the field).
  Result<std::vector<Completion>> generate(Request request, Callbacks callbacks = {});

  // Whether submit would take it; the error it would give. Safe from any thread, also while another one steps.
  Result<void> check(const Request& request) const;
  // Many at once: submit, then step until it returns false.
  using Ticket = uint64_t;
  Result<Ticket> submit(Request request, Callbacks callbacks);
  void cancel(Ticket ticket);
  bool step();
  // Returns true when the step under way (async_scheduling) is computed: what is submitted and cancelled before the
  // next call of step() is in time for the one after it. False: wake() was called meanwhile, or since the last wait.
  bool wait();
  void wake();  // safe from any thread
  // While a step is under way: what is cancelled or late ends now, and its blocks are free, though its rows are still
  // computed.
  void settle();

  // Errors: EngineOptions::trace_file could not take all that was traced so far.
  Result<void> finish_trace();

  Counters counters() const;
  Load load() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eadem
