// The options that say how a model runs. None of them but --numerics can move a bit of an answer.
#pragma once

#include "cli/flags.h"
#include "eadem/engine.h"

namespace eadem::cli {

struct EngineFlags {
  EngineOptions options;  // the model is $EADEM_MODEL, else smollm2-135m, unless -m names one
  bool stats = false;
  bool model_given = false;

  // The flags must live as long as the command.
  void add(Flags& flags);
  Result<Engine> open() const;
};

// "1500000000", "512M", "2G": bytes; the error says what it must be.
Result<size_t> parse_bytes(const std::string& text);

// The end of a command that ran a model: counters as one line of JSON on stderr, where --stats asks for it; an error
// where --trace could not write all that it should.
Result<int> end_run(const EngineFlags& flags, Engine& engine, Result<int> status);

}  // namespace eadem::cli
