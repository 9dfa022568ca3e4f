// Files of answers: what a comparison reads.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"

namespace eadem::audit {

struct Answer {
  std::string id;       // empty: the file has none
  std::string request;  // what was asked, but for the seed: equal texts are equal requests; empty: not told
  std::string name;     // of the request, for people
  std::optional<uint64_t> seed;
  // As `eadem generate` writes them, those fields that were told: token_ids (tokens as texts where no ids were told),
  // logprobs, top_logprobs, prompt_logprobs, prompt_top_logprobs, text, finish_reason, kv_hash.
  nlohmann::ordered_json fields;
  std::map<std::string, double> metrics;
};

struct AnswerFile {
  std::string path;
  std::vector<Answer> answers;
  std::set<std::string> fingerprints, numerics;
  int64_t skipped = 0;  // lines that hold an error instead of an answer
};

// A JSONL file of answers, each line one of
//   - an answer of `eadem generate` or `eadem score`;
//   - a reply of /v1/completions or /v1/chat/completions, one answer a choice, alone or as the "response" of OpenAI's
//     batch files ("custom_id" is the id);
//   - an item of an evaluation: an id and metrics.
// `metrics` names fields whose numbers (or true and false) are metrics of an answer; empty: those of kMetricNames.
// Errors name the line.
Result<AnswerFile> read_answers(const std::string& path, const std::vector<std::string>& metrics);

inline constexpr const char* kMetricNames[] = {"correct", "score", "metric", "accuracy", "exact_match"};

}  // namespace eadem::audit
