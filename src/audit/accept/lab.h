// Where cells are carried out: the model under one numerics, the answers that each request gets alone, and engines
// opened as a cell wants them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audit/accept/matrix.h"
#include "audit/corpus.h"
#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit::accept {

// What all labs of a run share.
struct Workshop {
  EngineOptions engine;  // as the program was told; its model, threads, isa and memory count
  std::function<Result<Engine>(const EngineOptions&)> open = [](const EngineOptions& o) { return Engine::open(o); };
  std::string program;  // `eadem` itself, for cells that start processes; empty: those are not testable
  std::function<bool()> interrupted = [] { return false; };
  const Corpus* corpus = nullptr;
};

// A request of the corpus for this model, cut to its limits.
struct Question {
  std::string id;
  Level level = Level::kBits;
  Request request;
};

// What the callers of run_together do between steps.
struct Company {
  std::function<void(size_t step)> before_step;
  std::vector<Callbacks> callbacks;  // by request, where there are any
  std::vector<size_t> arrivals;      // the step before which a request is submitted; empty: all at once
};

// Submits all, in their order, and steps until all are answered. Errors: a request that the engine refuses, an answer
// that is an error, an interrupt.
Result<std::vector<std::vector<Completion>>> run_together(Engine& engine, std::span<const Request> requests,
                                                          const Workshop& workshop, const Company& company = {});

class Lab {
 public:
  // numerics: a short name or "auto"; mode: "contract" or "free".
  Lab(const Workshop& workshop, std::string numerics, std::string mode);

  const Workshop& workshop() const { return workshop_; }
  const std::string& mode() const { return mode_; }

  // The engine of the baselines: one sequence at a time, whole prompts, no cache, no guesses. It has answered one
  // request when it is first seen, so that a first request that computed something else is not what others are held to.
  Result<Engine*> plain();
  // What the request gets alone, computed once. The pointer stays valid.
  Result<const std::vector<Completion>*> alone(const Request& request);

  // Options that cells start from: those of the program, no cache, eight sequences at once, hashes of keys and values.
  EngineOptions options() const;
  // A new engine that has answered one short request.
  Result<Engine> open(const EngineOptions& options) const;
  // One that has not.
  Result<Engine> open_cold(const EngineOptions& options) const;

  // Requests of these categories (all where empty) that the model can take.
  Result<std::vector<Question>> questions(const std::vector<std::string>& categories, const Limits& limits);
  // Token ids that look like nothing, but are the same each time: below the vocabulary's size, no end-of-text.
  std::vector<int32_t> noise(size_t count, uint64_t seed) const;

 private:
  Result<void> warm_up(Engine& engine) const;

  const Workshop& workshop_;
  std::string numerics_, mode_;
  std::optional<Engine> plain_;
  std::map<std::string, std::vector<Completion>> alone_;
};

// The contents of a request as text: equal texts have equal answers.
std::string key_of(const Request& request);

}  // namespace eadem::audit::accept
