// A file of requests to a file of answers: one line an answer, in the order of the input, each with the input's line
// number. What an interrupted run left is kept and gone on from.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/flags.h"
#include "eadem/engine.h"

namespace eadem::cli {

struct BatchFiles {
  std::string in, out = "-";  // "-": stdin, stdout
  bool overwrite = false;

  void add(Flags& flags);
};

struct BatchJob {
  BatchFiles files;
  // The request that a line asks; an error fails the line alone.
  std::function<Result<Request>(nlohmann::ordered_json line)> prepare;
  // One answer of it.
  std::function<nlohmann::ordered_json(const Request& request, const Completion& answer)> render;
  // Before its line is written; may be empty. An error ends it all.
  std::function<Result<void>(const Request& request, const Completion& answer)> sign = nullptr;
};

// The exit status: 0, 1 where a line failed, 130 after an interrupt.
Result<int> run_batch(Engine& engine, int max_batch, const BatchJob& job);

// JSON in one line; bytes that are no UTF-8 become U+FFFD.
std::string to_line(const nlohmann::ordered_json& object);

}  // namespace eadem::cli
