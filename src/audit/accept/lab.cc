#include "audit/accept/lab.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/request_json.h"

namespace eadem::audit::accept {
namespace {

constexpr int kLogprobs = 2;  // asked of every answer, so that equal tokens with other numbers are seen

// Answers of a length that is known beforehand, but where an end is part of what is asked.
void shape(const CorpusRequest& from, const Limits& limits, uint64_t seed, Request& request) {
  SamplingParams& sampling = request.sampling;
  if (limits.prompt_tokens > 0 && request.prompt_token_ids.size() > static_cast<size_t>(limits.prompt_tokens))
    request.prompt_token_ids.resize(static_cast<size_t>(limits.prompt_tokens));
  if (limits.answer_tokens > 0) sampling.max_tokens = std::min(sampling.max_tokens, limits.answer_tokens);
  sampling.max_tokens = std::max(sampling.max_tokens, 1);
  sampling.logprobs = std::max(sampling.logprobs, kLogprobs);
  sampling.n = 1;
  if (!sampling.seed) sampling.seed = seed;
  if (!sampling.guide && !from.is_chat() && sampling.stop.empty()) sampling.ignore_eos = true;
}

bool wanted(const std::vector<std::string>& categories, const std::string& category) {
  return categories.empty() || std::find(categories.begin(), categories.end(), category) != categories.end();
}

// Puts every request that is due into the engine.
struct Round {
  Engine& engine;
  std::span<const Request> requests;
  const Company& company;
  std::vector<std::vector<Completion>> answers;
  size_t next = 0, done = 0;
  std::vector<Engine::Ticket> tickets = {};

  // Nothing of it may be called afterwards, also where the round ended before its time.
  ~Round() {
    for (const auto ticket : tickets) engine.cancel(ticket);
  }

  size_t arrival(size_t i) const { return i < company.arrivals.size() ? company.arrivals[i] : 0; }

  Result<void> submit_due(size_t step) {
    for (; next < requests.size() && arrival(next) <= step; ++next) {
      Callbacks callbacks = next < company.callbacks.size() ? company.callbacks[next] : Callbacks{};
      callbacks.on_done = [this, i = next, then = callbacks.on_done](std::vector<Completion> all) {
        answers[i] = all;
        ++done;
        if (then) then(std::move(all));
      };
      const auto ticket = engine.submit(requests[next], std::move(callbacks));
      if (!ticket.ok()) return Error{"a request was refused: " + ticket.error().message};
      tickets.push_back(ticket.value());
    }
    return {};
  }
};

}  // namespace

std::string key_of(const Request& request) {
  return nlohmann::json({request.prompt_token_ids, api::to_json(request.sampling), static_cast<int>(request.pooling)})
      .dump();
}

Result<std::vector<std::vector<Completion>>> run_together(Engine& engine, std::span<const Request> requests,
                                                          const Workshop& workshop, const Company& company) {
  Round round{engine, requests, company, std::vector<std::vector<Completion>>(requests.size())};
  for (size_t step = 0; round.done < requests.size(); ++step) {
    if (workshop.interrupted()) return Error{"interrupted"};
    EADEM_RETURN_IF_ERROR(round.submit_due(step));
    if (company.before_step) company.before_step(step);
    engine.step();
  }
  for (const auto& all : round.answers) {
    for (const Completion& answer : all) {
      if (answer.finish_reason == FinishReason::kError) return Error{"an answer is an error: " + answer.error};
    }
  }
  return std::move(round.answers);
}

Lab::Lab(const Workshop& workshop, std::string numerics, std::string mode)
    : workshop_(workshop), numerics_(std::move(numerics)), mode_(std::move(mode)) {}

EngineOptions Lab::options() const {
  EngineOptions options = workshop_.engine;
  options.numerics = numerics_;
  options.mode = mode_;
  options.max_batch = 8;
  options.prefill_chunk = 512;
  options.mixed_chunk = 1 << 16;  // prompts are not held back beside rows that draw, so that batches fill up
  options.kv_blocks = 0;
  options.prefix_cache = false;
  options.speculation = "off";
  options.draft_model.clear();
  options.force_preempt = 0;
  options.async_scheduling = false;
  options.kv_hash = true;
  options.trace_file.clear();
  return options;
}

Result<void> Lab::warm_up(Engine& engine) const {
  Request request;
  request.prompt_token_ids = {0};
  request.sampling.max_tokens = 2;
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  return run_together(engine, {&request, 1}, workshop_).ok() ? Result<void>()
                                                             : Result<void>(Error{"the engine answers nothing"});
}

Result<Engine> Lab::open_cold(const EngineOptions& options) const {
  if (workshop_.interrupted()) return Error{"interrupted"};
  return workshop_.open(options);
}

Result<Engine> Lab::open(const EngineOptions& options) const {
  EADEM_ASSIGN_OR_RETURN(Engine engine, open_cold(options));
  EADEM_RETURN_IF_ERROR(warm_up(engine));
  return engine;
}

Result<Engine*> Lab::plain() {
  if (plain_) return &*plain_;
  EngineOptions wanted = options();
  wanted.max_batch = 1;
  EADEM_ASSIGN_OR_RETURN(Engine engine, open(wanted));
  const std::string& full = engine.info().numerics;
  numerics_ = full.substr(0, full.find('-'));  // "auto" would be something else on another device
  plain_.emplace(std::move(engine));
  return &*plain_;
}

Result<const std::vector<Completion>*> Lab::alone(const Request& request) {
  const std::string key = key_of(request);
  if (const auto found = alone_.find(key); found != alone_.end()) return &found->second;
  EADEM_ASSIGN_OR_RETURN(Engine* const engine, plain());
  EADEM_ASSIGN_OR_RETURN(auto answers, run_together(*engine, {&request, 1}, workshop_));
  return &alone_.emplace(key, std::move(answers.front())).first->second;
}

Result<std::vector<Question>> Lab::questions(const std::vector<std::string>& categories, const Limits& limits) {
  EADEM_ASSIGN_OR_RETURN(Engine* const engine, plain());
  std::map<std::string, int> taken;
  std::vector<Question> questions;
  uint64_t number = 0;
  for (const CorpusRequest& from : workshop_.corpus->requests) {
    ++number;
    if (!wanted(categories, from.category)) continue;
    if (limits.requests > 0 && taken[from.category] >= limits.requests) continue;
    auto request = to_request(*engine, from);
    if (!request.ok()) continue;  // the model has no tokenizer or template, or cannot hold the guide
    shape(from, limits, number, request.value());
    if (!engine->check(request.value()).ok()) continue;  // longer than the model's context
    ++taken[from.category];
    questions.push_back({from.id, from.level, std::move(request).value()});
  }
  return questions;
}

std::vector<int32_t> Lab::noise(size_t count, uint64_t seed) const {
  EADEM_CHECK(plain_.has_value());
  const auto vocab = static_cast<uint64_t>(plain_->info().vocab);
  const auto& ends = plain_->info().eos_token_ids;
  std::vector<int32_t> tokens;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  while (tokens.size() < count) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const auto token = static_cast<int32_t>((state >> 20) % vocab);
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace eadem::audit::accept
