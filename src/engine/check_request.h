// What an engine can take: its options against the model, and each request against both.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace eadem::engine {

struct Limits {
  int64_t vocab = 0;
  int64_t max_model_len = 0;  // positions of one sequence
  int kv_blocks = 0;
};

// Errors name the option.
Result<Limits> check_options(const model::Model& model, const kernels::KernelSet& set, const Options& options);
// Errors name the request's field.
Result<void> check_request(const SequenceRequest& request, const Limits& limits);

}  // namespace eadem::engine
