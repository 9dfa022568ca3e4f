// Every sampling field as an option under its API name. What is given stands for the lines of a batch that do not set
// the field, and over the model's own defaults.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "eadem/engine.h"

namespace eadem::cli {

struct SamplingFlags {
  nlohmann::json fields = nlohmann::json::object();

  void add(Flags& flags);
  // What counts where a request says nothing; checked against the model.
  Result<SamplingParams> over(const Engine& engine) const;
};

}  // namespace eadem::cli
