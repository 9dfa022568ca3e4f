// What an engine answered to a corpus, to be held to later: tokens, logprobs, the most likely tokens of each step, and
// under which identity and deployment. One JSON file, an answer on a line of its own (docs/gate.md).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/corpus.h"
#include "eadem/engine.h"

namespace eadem::audit {

// The most likely tokens that are kept of each step.
inline constexpr int kBaselineTop = 8;

struct RecordedAnswer {
  std::string id;  // of the request
  int index = 0;   // of the answer, where the request asks for several
  std::string category;
  Level level = Level::kBits;
  std::string not_run;      // why this model has no answer to it; empty: it has
  std::string prompt_hash;  // BLAKE3 of the prompt's token ids (int32, little-endian)
  uint64_t prompt_tokens = 0;
  std::vector<SampledToken> tokens;  // of a brief baseline without logprobs
  std::string logprobs_hash;         // BLAKE3 of each step's logprob and most likely tokens, as float32
  std::string text, finish_reason;

  // "code-01", or "sampling-07#2" where the request has several answers.
  std::string name() const { return index == 0 ? id : id + "#" + std::to_string(index); }
  // Of all that its level compares.
  std::string digest() const;
  // The fields of `eadem generate` that audit/difference.h reads; of a brief one the hash stands for the logprobs.
  nlohmann::ordered_json comparable(bool brief) const;
};

struct Baseline {
  std::string date, program, model, numerics, mode;  // date: RFC 3339, UTC
  std::string identity, deployment;                  // digests
  nlohmann::ordered_json identity_parts, deployment_parts;
  std::string corpus_name, corpus_digest;
  bool brief = false;  // tokens and hashes alone: small, and tells that a logprob moved, but not how far
  std::vector<RecordedAnswer> answers;

  // Of the corpus, the identity and each answer; what a deployment or a day says does not matter, nor whether it is
  // brief.
  std::string digest() const;
};

// Asks the engine, many at once. tick: after each step, with the requests answered and those there are; false ends it
// all with an empty list.
Baseline record(Engine& engine, const Corpus& corpus, const std::vector<const CorpusRequest*>& requests,
                int most_under_way, const std::function<bool(size_t done, size_t total)>& tick);

// Errors name the file and what to do: another corpus, a field that is missing, an answer to no request of
// the corpus.
Result<Baseline> read_baseline(const std::string& path, const Corpus& corpus);
Result<void> write_baseline(const std::string& path, const Baseline& baseline);

}  // namespace eadem::audit
