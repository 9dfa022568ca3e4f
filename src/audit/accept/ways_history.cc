// Ways that vary what an engine did before: what its prefix cache holds, what its blocks held, how many it answered.
#include <algorithm>

#include "audit/accept/trial.h"
#include "audit/accept/ways_of.h"

namespace eadem::audit::accept {
namespace {

constexpr size_t kBlock = 64;  // positions of a KV block

Result<void> ask_and_hold(Trial& trial, Engine& engine) {
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, trial.requests()));
  for (size_t i = 0; i < trial.questions().size(); ++i)
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], answers[i].front()));
  return {};
}

// Not counted: what a cell must prove it proves by what comes afterwards.
Result<void> prepare_with(Trial& trial, Engine& engine, std::span<const Request> requests) {
  const auto answers = run_together(engine, requests, trial.lab().workshop());
  return answers.ok() ? Result<void>() : Result<void>(answers.error());
}

}  // namespace

// As many times as the value says; the last time counts.
Result<void> run_again(Trial& trial) {
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  for (int i = 1; i < trial.number(); ++i) EADEM_RETURN_IF_ERROR(prepare_with(trial, engine, trial.requests()));
  return ask_and_hold(trial, engine);
}

bool is_part(std::string_view value) { return value == "half" || value == "all but one token" || value == "one block"; }

// A part of every prompt was asked before.
Result<void> run_after_parts(Trial& trial) {
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  std::vector<Request> parts = trial.requests();
  for (Request& part : parts) {
    const size_t size = part.prompt_token_ids.size();
    const size_t kept = trial.value() == "half" ? size / 2 : trial.value() == "one block" ? kBlock : size - 1;
    part.prompt_token_ids.resize(std::clamp<size_t>(kept, 1, size));
    part.sampling.max_tokens = 1;
    part.sampling.golden_token_ids.clear();
  }
  EADEM_RETURN_IF_ERROR(prepare_with(trial, engine, parts));
  return ask_and_hold(trial, engine);
}

// Asked one after the other through a pool that holds little more than one: what was cached is gone, or a part of it,
// when the same is asked again. The value: how many times in all.
Result<void> run_after_eviction(Trial& trial) {
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  const std::vector<Request> requests = trial.requests();
  for (int i = 1; i < trial.number(); ++i) {
    for (const Request& request : requests) EADEM_RETURN_IF_ERROR(prepare_with(trial, engine, {&request, 1}));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, {&requests[i], 1}));
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], answers.front().front()));
    // Asked twice in a row it is in the cache: the one case beside the other.
    EADEM_ASSIGN_OR_RETURN(const auto again, trial.run(engine, {&requests[i], 1}));
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], again.front().front()));
  }
  return {};
}

bool is_lineage(std::string_view value) { return value == "first block" || value == "first token"; }

// Prompts whose blocks hold the same tokens at the same places, but behind another beginning: a cache that knew a block
// by its own tokens alone would hand out keys and values of another text.
Result<void> run_lineage(Trial& trial) {
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  const auto shared = trial.lab().noise(kBlock + kBlock / 2, 5);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    Request request;
    auto beginning = trial.lab().noise(kBlock, trial.value() == "first block" ? 11 + i : 11);
    if (trial.value() == "first token") beginning[0] = trial.lab().noise(4, 12)[i];
    request.prompt_token_ids = beginning;
    request.prompt_token_ids.insert(request.prompt_token_ids.end(), shared.begin(), shared.end());
    request.sampling.max_tokens = 6;
    request.sampling.temperature = 0.0f;
    request.sampling.seed = i;
    request.sampling.logprobs = 2;
    request.sampling.ignore_eos = true;
    requests.push_back(std::move(request));
  }
  // In turn, twice: the second time each finds its own blocks.
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < requests.size(); ++i) {
      EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, {&requests[i], 1}));
      EADEM_RETURN_IF_ERROR(trial.hold("lineage-" + std::to_string(i), requests[i], answers.front().front()));
    }
  }
  return {};
}

// The value: how many requests the engine answered before. With 0 each is the first of an engine of its own.
Result<void> run_after_others(Trial& trial) {
  const int others = trial.number();
  std::optional<Engine> engine;
  for (const Question& question : trial.questions()) {
    if (!engine || others == 0) {
      engine.reset();
      EADEM_ASSIGN_OR_RETURN(engine, trial.lab().open_cold(trial.options()));
      trial.count("engines");
      std::vector<Request> before(static_cast<size_t>(others));
      for (size_t i = 0; i < before.size(); ++i) {
        before[i].prompt_token_ids = trial.lab().noise(3 + i % 7, 40 + i);
        before[i].sampling.max_tokens = 2;
        before[i].sampling.seed = i;
      }
      Company none;
      EADEM_ASSIGN_OR_RETURN(const auto ignored, trial.run(*engine, before, none));
    }
    EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(*engine, {&question.request, 1}));
    EADEM_RETURN_IF_ERROR(trial.hold(question, answers.front().front()));
  }
  return {};
}

}  // namespace eadem::audit::accept
