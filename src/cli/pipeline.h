// Requests from a source to a sink: many under way at once, delivered in the order of the source, in bounded memory.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eadem/engine.h"

namespace eadem::cli {

struct Item {
  int64_t line = 0;                 // of the input, from 1
  std::string id;                   // repeated in an error
  std::string error;                // why this line has no answer; empty: it has
  nlohmann::ordered_json original;  // what the source wants to find again
  Request request;
  std::vector<Completion> answers;
};

struct Source {
  // The next item, or false at the end.
  std::function<bool(Item&)> next;
  // Whether next would return at once.
  std::function<bool()> ready;
};
// Takes a finished item; an error ends it all.
using Sink = std::function<Result<void>(Item&)>;

struct PipelineEnd {
  bool interrupted = false;
  uint64_t tokens = 0;  // drawn
};

// Runs until the source is dry or an interrupt comes. Nobody waits for the source while anything is under way: it may
// be waiting for an answer itself. tick: after each step, with the tokens drawn so far.
Result<PipelineEnd> run_pipeline(Engine& engine, int most_under_way, const Source& source, const Sink& sink,
                                 const std::function<void(uint64_t tokens)>& tick);

}  // namespace eadem::cli
