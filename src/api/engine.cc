#include "eadem/engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "api/answer.h"
#include "api/choice.h"
#include "api/fingerprint.h"
#include "api/guides.h"
#include "api/text_assets.h"
#include "api/trace_writer.h"
#include "contract/bom.h"
#include "contract/identity.h"
#include "core/fp_env.h"
#include "fetch/pull.h"

namespace eadem {
namespace {

Result<void> check_options(const EngineOptions& options) {
  const auto positive = [](std::string_view name, int64_t value, int64_t least, int64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return Error{std::string(name) + " is " + std::to_string(value) + "; it must lie in " + std::to_string(least) +
                 " ... " + std::to_string(most)};
  };
  EADEM_RETURN_IF_ERROR(positive("threads", options.threads, 0, 1024));
  EADEM_RETURN_IF_ERROR(positive("max_batch", options.max_batch, 1, 4096));
  EADEM_RETURN_IF_ERROR(positive("prefill_chunk", options.prefill_chunk, 1, 65536));
  EADEM_RETURN_IF_ERROR(positive("mixed_chunk", options.mixed_chunk, 0, 65536));
  EADEM_RETURN_IF_ERROR(positive("kv_blocks", options.kv_blocks, 0, 1 << 28));
  EADEM_RETURN_IF_ERROR(positive("max_model_len", options.max_model_len, 0, int64_t{1} << 31));
  EADEM_RETURN_IF_ERROR(positive("max_draft", options.max_draft, 1, engine::kMostDraft));
  return positive("force_preempt", options.force_preempt, 0, 1 << 30);
}

}  // namespace

// One request under way, with its n answers.
struct Pending {
  Callbacks callbacks;
  std::vector<std::unique_ptr<api::Answer>> answers;
  std::vector<engine::SequenceId> sequences;
  size_t open = 0;  // answers that have not ended
};

struct Engine::State {
  weights::Checkpoint checkpoint, draft_checkpoint;
  std::unique_ptr<model::Model> model, draft_model;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<api::TraceWriter> trace;
  std::optional<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  std::unique_ptr<api::Guides> guides;
  SamplingParams sampling;
  ModelInfo info;
  TextInfo text;
  contract::DigestCache digests;
  contract::Identity identity;
  contract::Deployment deployment;
  std::string identity_digest, identity_parts, deployment_digest, deployment_parts;
  std::mutex bom_mutex;
  std::string bom;  // empty: nobody has asked yet
  bool kv_hash = false;
  uint64_t first_calls = 0;  // kernel calls before this engine
  Ticket last_ticket = 0;
  std::map<Ticket, Pending> pending;
  std::vector<Ticket> done;
  std::unordered_map<engine::SequenceId, std::string> names;  // for traces: "ticket/index"

  Result<void> open(const EngineOptions& options);
  Result<void> load_text(const EngineOptions& options);
  void describe_text(const EngineOptions& options);
  Result<engine::SpeculationOptions> speculation(const EngineOptions& options, const model::ModelOptions& target);
  Result<void> start(const EngineOptions& options, const api::Choice& choice);
  void describe(const EngineOptions& options, const api::Choice& choice);
  void sign(const EngineOptions& options, const api::Choice& choice);
  const std::string& bill_of_materials();
  // Constant: any thread may call it.
  Result<void> check_request(const Request& request) const;
  Result<engine::SequenceRequest> sequence_of(const Request& request, uint64_t seed) const;
  void add_answer(Ticket ticket, Pending& asked, const Request& request, int index, uint64_t seed);
  void collect();
};

Result<void> Engine::State::open(const EngineOptions& options) {
  EADEM_RETURN_IF_ERROR(check_options(options));
  EADEM_ASSIGN_OR_RETURN(const auto path, fetch::resolve_model(options.model));
  digests = contract::DigestCache({fetch::default_cache() / "digests", options.recheck_weights});
  EADEM_ASSIGN_OR_RETURN(checkpoint, weights::Checkpoint::open(path));
  info.path = path.string();
  EADEM_ASSIGN_OR_RETURN(const api::Choice choice, api::choose(options, checkpoint));
  EADEM_RETURN_IF_ERROR(load_text(options));
  model::ModelOptions model_options;
  model_options.numerics = choice.numerics;
  model_options.kernels = choice.kernels;
  model_options.device = choice.device;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  model_options.threads = options.threads == 0 ? cores : options.threads;
  model_options.max_rows = std::max(options.prefill_chunk, options.max_batch);
  first_calls = choice.calls();
  EADEM_ASSIGN_OR_RETURN(model, model::Model::load(checkpoint, model_options));
  EADEM_RETURN_IF_ERROR(start(options, choice));
  sign(options, choice);
  return {};
}

Result<void> Engine::State::load_text(const EngineOptions& options) {
  EADEM_ASSIGN_OR_RETURN(tokenizer, api::load_tokenizer(checkpoint));
  if (options.chat_template.empty()) {
    EADEM_ASSIGN_OR_RETURN(chat_template, api::load_chat_template(checkpoint));
  } else {
    auto parsed = text::ChatTemplate::parse(options.chat_template);
    if (!parsed.ok()) return Error{"the chat template given: " + parsed.error().message};
    chat_template = std::move(parsed).value();
  }
  describe_text(options);
  EADEM_ASSIGN_OR_RETURN(info.eos_token_ids, api::load_eos(checkpoint, tokenizer));
  guides = std::make_unique<api::Guides>(tokenizer, info.eos_token_ids);
  EADEM_ASSIGN_OR_RETURN(sampling, api::load_default_sampling(checkpoint));
  return {};
}

void Engine::State::describe_text(const EngineOptions& options) {
  text.chat_template =
      options.chat_template.empty() ? checkpoint.text().chat_template.value_or("") : options.chat_template;
  if (!tokenizer) return;
  const auto spelled = [&](std::optional<uint32_t> id) {
    return id ? std::string(tokenizer->token_text(*id)) : std::string();
  };
  text.bos_token = spelled(tokenizer->bos_id());
  text.eos_token = spelled(tokenizer->eos_id());
  text.unk_token = spelled(tokenizer->unknown_id());
  text.pad_token = spelled(tokenizer->pad_id());
}

// Loads the draft model, where there is one. Its numerics are its own: no bit of it reaches an answer.
Result<engine::SpeculationOptions> Engine::State::speculation(const EngineOptions& options,
                                                              const model::ModelOptions& target) {
  using Kind = engine::SpeculationOptions::Kind;
  engine::SpeculationOptions result;
  result.max_draft = options.max_draft;
  result.eager = options.force_draft;
  if (options.speculation != "off" && options.speculation != "ngram" && options.speculation != "draft") {
    return Error{"speculation '" + options.speculation + "' is unknown: use off, ngram or draft"};
  }
  const bool drafts = options.speculation == "draft";
  if (drafts != !options.draft_model.empty()) return Error{"speculation 'draft' and draft_model go together"};
  if (options.speculation == "ngram") result.kind = Kind::kNgram;
  if (!drafts) return result;
  result.kind = Kind::kDraft;
  EADEM_ASSIGN_OR_RETURN(const auto path, fetch::resolve_model(options.draft_model));
  EADEM_ASSIGN_OR_RETURN(draft_checkpoint, weights::Checkpoint::open(path));
  model::ModelOptions model_options = target;
  if (target.device == nullptr) model_options.numerics = model::default_numerics(draft_checkpoint);
  EADEM_ASSIGN_OR_RETURN(draft_model, model::Model::load(draft_checkpoint, model_options));
  result.draft_model = draft_model.get();
  return result;
}

Result<void> Engine::State::start(const EngineOptions& options, const api::Choice& choice) {
  engine::Options engine_options;
  engine_options.max_batch = options.max_batch;
  engine_options.prefill_chunk = options.prefill_chunk;
  engine_options.mixed_chunk = options.mixed_chunk;
  engine_options.kv_blocks = options.kv_blocks;
  engine_options.kv_memory = options.kv_memory;
  engine_options.max_model_len = options.max_model_len;
  engine_options.prefix_cache = options.prefix_cache;
  engine_options.force_preempt = options.force_preempt;
  engine_options.async_scheduling = options.async_scheduling && options.trace_file.empty();
  engine_options.eos = info.eos_token_ids;
  EADEM_ASSIGN_OR_RETURN(engine_options.speculation, speculation(options, model->options()));
  EADEM_ASSIGN_OR_RETURN(engine, engine::Engine::create(*model, engine_options));
  kv_hash = options.kv_hash;
  describe(options, choice);
  if (options.trace_file.empty()) return {};
  for (const MappedFile& file : checkpoint.files()) {
    std::error_code ignored;
    if (std::filesystem::equivalent(file.path(), options.trace_file, ignored)) {
      return Error{"the trace file " + options.trace_file + " is a file of the model"};
    }
  }
  EADEM_ASSIGN_OR_RETURN(trace, api::TraceWriter::open(options.trace_file, [this](int sequence) {
                           const auto found = names.find(engine->sequence_of(sequence));
                           return found == names.end() ? std::string("?") : found->second;
                         }));
  engine->set_trace(trace.get());
  return {};
}

void Engine::State::describe(const EngineOptions& options, const api::Choice& choice) {
  const model::ModelConfig& config = model->config();
  info.format = checkpoint.format() == weights::Checkpoint::Format::gguf ? "gguf" : "safetensors";
  info.family = config.family;
  info.numerics = choice.numerics_name();
  info.mode = choice.is_free() ? "free" : "contract";
  info.isa = choice.set().name;
  info.threads = model->options().threads;
  info.vocab = config.vocab;
  info.context = config.context;
  info.max_model_len = options.max_model_len == 0 ? config.context : std::min(options.max_model_len, config.context);
  info.layers = config.layers, info.hidden = config.hidden;
  info.heads = config.heads, info.kv_heads = config.kv_heads, info.head_size = config.head_size;
  info.weight_bytes = model->weight_bytes();
  info.kv_blocks = engine->kv_blocks();
  info.kv_bytes = static_cast<size_t>(info.kv_blocks) *
                  model::KvPool::block_bytes(choice.set(), model->attention_shape(), config.layers);
  info.has_tokenizer = tokenizer.has_value();
  info.has_chat_template = chat_template.has_value();
}

void Engine::State::sign(const EngineOptions& options, const api::Choice& choice) {
  identity = contract::identity_of(checkpoint, choice.numerics_name(), info.eos_token_ids, digests);
  if (!options.chat_template.empty()) identity.chat_template = contract::digest_of_template(options.chat_template);
  identity_parts = identity.canonical();
  identity_digest = identity.digest();
  deployment = api::deployment_of(options, info);
  if (choice.device != nullptr) deployment.device = api::device_name(options.device, choice.device->facts());
  if (draft_model) deployment.draft_model = contract::digest_of_weights(draft_checkpoint, digests);
  deployment_parts = deployment.canonical();
  deployment_digest = deployment.digest();
}

const std::string& Engine::State::bill_of_materials() {
  const std::lock_guard lock(bom_mutex);
  if (bom.empty()) {
    contract::BomModel described = api::bom_model_of(info, checkpoint.metadata());
    described.files = contract::bom_files(checkpoint.files(), digests);
    bom = contract::bill_of_materials(identity, deployment, described);
  }
  return bom;
}

// Hands out the requests whose answers all ended. Outside the engine's step, so that a callback may submit and cancel.
void Engine::State::collect() {
  for (const Ticket ticket : std::exchange(done, {})) {
    auto node = pending.extract(ticket);
    std::vector<Completion> answers;
    for (auto& answer : node.mapped().answers) answers.push_back(answer->take());
    for (const auto sequence : node.mapped().sequences) names.erase(sequence);
    if (node.mapped().callbacks.on_done) node.mapped().callbacks.on_done(std::move(answers));
  }
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const EngineOptions& options) {
  const FpEnvironment environment;  // a caller's rounding mode must not reach the model's numbers
  auto state = std::make_unique<State>();
  EADEM_RETURN_IF_ERROR(state->open(options));
  return Engine(std::move(state));
}

const ModelInfo& Engine::info() const { return state_->info; }
const std::string& Engine::identity() const { return state_->identity_digest; }
const std::string& Engine::identity_parts() const { return state_->identity_parts; }
const std::string& Engine::deployment() const { return state_->deployment_digest; }
const std::string& Engine::deployment_parts() const { return state_->deployment_parts; }
std::string Engine::bill_of_materials() const { return state_->bill_of_materials(); }
const SamplingParams& Engine::default_sampling() const { return state_->sampling; }
const TextInfo& Engine::text() const { return state_->text; }

Result<std::vector<int32_t>> Engine::tokenize(std::string_view text, bool add_special_tokens) const {
  if (!state_->tokenizer) return Error{state_->info.path + " has no tokenizer: pass prompts as token ids"};
  EADEM_ASSIGN_OR_RETURN(const auto ids, state_->tokenizer->encode(text, {add_special_tokens, true}));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

std::string_view Engine::token_bytes(int32_t token) const {
  return state_->tokenizer ? state_->tokenizer->token_bytes(static_cast<uint32_t>(token)) : std::string_view();
}

std::string_view Engine::token_text(int32_t token) const {
  return state_->tokenizer ? state_->tokenizer->token_text(static_cast<uint32_t>(token)) : std::string_view();
}

bool Engine::is_special(int32_t token) const {
  return state_->tokenizer && state_->tokenizer->is_special(static_cast<uint32_t>(token));
}

Result<std::string> Engine::detokenize(std::span<const int32_t> tokens, bool skip_special_tokens) const {
  if (!state_->tokenizer) return Error{state_->info.path + " has no tokenizer"};
  const std::vector<uint32_t> ids(tokens.begin(), tokens.end());
  return state_->tokenizer->decode(ids, {skip_special_tokens, false});
}

Result<std::string> Engine::render_chat(const std::string& messages, const std::string& tools,
                                        const std::string& kwargs) const {
  if (!state_->chat_template)
    return Error{state_->info.path + " has no chat template: use a prompt instead of messages"};
  text::ChatInput input;
  input.messages_json = messages;
  if (!tools.empty()) input.tools_json = tools;
  input.kwargs_json = kwargs;
  input.bos_token = state_->text.bos_token;
  input.eos_token = state_->text.eos_token;
  return state_->chat_template->render(input);
}

Result<void> Engine::State::check_request(const Request& request) const {
  const SamplingParams& asked = request.sampling;
  if (request.pooling == Pooling::kNone) {  // else sampling does not matter
    if (asked.n < 1 || asked.n > 1024) return Error{"n is " + std::to_string(asked.n) + "; it must lie in 1 ... 1024"};
    if (!asked.stop.empty() && !tokenizer) return Error{"stop: the model has no tokenizer; use stop_token_ids"};
    for (const std::string& stop : asked.stop) {
      if (stop.empty()) return Error{"stop: a stop string must not be empty"};
    }
  }
  EADEM_ASSIGN_OR_RETURN(const auto sequence, sequence_of(request, 0));
  return engine->check(sequence);
}

// Errors: a guide that cannot be used.
Result<engine::SequenceRequest> Engine::State::sequence_of(const Request& request, uint64_t seed) const {
  engine::SequenceRequest sequence;
  EADEM_ASSIGN_OR_RETURN(sequence.guide, guides->of(request.sampling));
  sequence.prompt = request.prompt_token_ids;
  sequence.sampling = request.sampling;
  if (request.receipt && request.sampling.logprobs < 0) {  // the draw does not see it
    sequence.sampling.logprobs = 0;
    sequence.sampling.processed_logprobs = false;
  }
  sequence.seed = seed;
  sequence.kv_hash = kv_hash;
  sequence.priority = request.priority;
  sequence.deadline = request.deadline;
  sequence.pooling = request.pooling;
  return sequence;
}

void Engine::State::add_answer(Ticket ticket, Pending& asked, const Request& request, int index, uint64_t seed) {
  api::Answer::OnText on_text;
  if (asked.callbacks.on_token) {
    on_text = [&asked, index](const SampledToken& token, std::string_view piece) {
      return asked.callbacks.on_token(index, token, piece);
    };
  }
  auto answer = std::make_unique<api::Answer>(index, seed, request.sampling, tokenizer ? &*tokenizer : nullptr,
                                              std::move(on_text), [this, &asked, ticket] {
                                                if (--asked.open == 0) done.push_back(ticket);
                                              });
  if (asked.callbacks.on_prompt) {
    answer->on_prompt_done(
        [&asked, index](const std::vector<SampledToken>& tokens) { asked.callbacks.on_prompt(index, tokens); });
  }
  if (request.receipt) answer->keep_steps(static_cast<int64_t>(request.prompt_token_ids.size()));
  answer->when_started([&asked] {
    if (auto on_start = std::exchange(asked.callbacks.on_start, nullptr)) on_start();
  });
  auto sequence = sequence_of(request, seed);
  EADEM_CHECK(sequence.ok());  // it was checked
  const auto id = engine->submit(std::move(sequence).value(), answer.get());
  EADEM_CHECK(id.ok());
  asked.answers.push_back(std::move(answer));
  asked.sequences.push_back(id.value());
  ++asked.open;
  if (trace) names[id.value()] = std::to_string(ticket) + "/" + std::to_string(index);
}

Result<void> Engine::check_guide(const Guide& guide) const {
  const auto found = state_->guides->find(guide);
  if (!found.ok()) return Error{found.error()};
  return {};
}

Result<void> Engine::check(const Request& request) const { return state_->check_request(request); }

Result<Engine::Ticket> Engine::submit(Request request, Callbacks callbacks) {
  State& state = *state_;
  if (request.pooling != Pooling::kNone) request.sampling = {};
  EADEM_RETURN_IF_ERROR(state.check_request(request));
  const uint64_t seed = request.sampling.seed ? *request.sampling.seed : api::random_seed();
  const Ticket ticket = ++state.last_ticket;
  Pending& asked = state.pending[ticket];
  asked.callbacks = std::move(callbacks);
  for (int index = 0; index < request.sampling.n; ++index) {
    state.add_answer(ticket, asked, request, index, api::seed_of_answer(seed, index));
  }
  return ticket;
}

void Engine::cancel(Ticket ticket) {
  const auto found = state_->pending.find(ticket);
  if (found == state_->pending.end()) return;
  for (const auto sequence : std::vector(found->second.sequences)) state_->engine->cancel(sequence);
  state_->collect();
}

Result<void> Engine::finish_trace() { return state_->trace ? state_->trace->finish() : Result<void>(); }

bool Engine::wait() { return state_->engine->wait(); }
void Engine::wake() { state_->engine->wake(); }
void Engine::settle() { state_->engine->settle(); }

bool Engine::step() {
  const bool more = state_->engine->step();
  state_->collect();
  return more || !state_->pending.empty();
}

Result<std::vector<Completion>> Engine::generate(Request request, Callbacks callbacks) {
  std::vector<Completion> answers;
  bool done = false;
  callbacks.on_done = [&, then = std::move(callbacks.on_done)](std::vector<Completion> completed) {
    answers = std::move(completed);
    done = true;
    if (then) then(answers);
  };
  EADEM_ASSIGN_OR_RETURN(const Ticket ticket, submit(std::move(request), std::move(callbacks)));
  while (!done && step()) {
  }
  EADEM_CHECK(done && ticket != 0);
  return answers;
}

Counters Engine::counters() const {
  Counters counters = state_->engine->counters();
  const model::ModelOptions& used = state_->model->options();
  counters.kernel_calls =
      (used.device != nullptr ? used.device->calls() : used.kernels->calls->load()) - state_->first_calls;
  return counters;
}

Load Engine::load() const { return state_->engine->load(); }

}  // namespace eadem
