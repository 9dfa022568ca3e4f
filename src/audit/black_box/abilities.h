// What an endpoint can do, found by asking it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/black_box/traffic.h"
#include "core/result.h"

namespace eadem::audit::black_box {

struct Abilities {
  std::string model;                // that requests name
  std::vector<std::string> models;  // that /v1/models names
  bool completions = false, chat = false;
  bool streaming = false;
  std::string no_stream;      // why not
  bool logprobs = false;      // of the tokens drawn, and of likely ones
  bool token_ids = false;     // `return_token_ids`: of prompt and answer
  bool token_prompt = false;  // a prompt may be token ids (completions)
  bool echo = false;          // scoring: `echo` with `logprobs` (completions)
  bool seed = false;          // accepted; whether it fixes the answer is a cell's matter
  bool n = false;             // several answers to one request
  bool answer_seeds = false;  // the seeds of the n answers are told
  bool ignore_eos = false;    // answers can be made as long as is wanted
  bool usage = false, stream_usage = false;
  bool cached_tokens = false;                   // how many prompt tokens came from a cache is told
  bool fingerprint = false;                     // `system_fingerprint` is told
  std::string max_tokens = "max_tokens";        // or "max_completion_tokens"
  std::string gauge;                            // of /metrics: how many requests run; empty: none
  int64_t context = 0;                          // tokens; 0: not told
  double tokens_per_word = 1.5;                 // of prompts here, as measured
  double token_seconds = 0.0;                   // of one request alone, from one token to the next; about
  nlohmann::ordered_json fingerprint_document;  // "fingerprint" and "numerics" of /v1/fingerprint, where it exists

  const char* path() const { return completions ? "/completions" : "/chat/completions"; }
  // The strongest level at which answers can be compared: "bits" with logprobs, else "tokens".
  const char* level() const { return logprobs ? "bits" : "tokens"; }
};

// Errors: nothing there, access refused, no such model, no way to get an answer; each says what to do.
Result<Abilities> discover(Traffic& traffic, const EndpointOptions& options);

nlohmann::ordered_json to_json(const Abilities& abilities);

}  // namespace eadem::audit::black_box
