// What an OpenAI-style reply says, whether it came whole or in pieces, as completion or chat.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace eadem::audit::black_box {

// One of a reply's choices. Lists are empty where the endpoint does not give them.
struct Choice {
  std::string text;
  std::vector<std::string> tokens;                                        // by name, as beside logprobs
  std::vector<int64_t> token_ids;                                         // of the answer
  std::vector<int64_t> prompt_token_ids;                                  // of the prompt
  nlohmann::ordered_json logprobs = nlohmann::ordered_json::array();      // of each token: a number, or null
  nlohmann::ordered_json top_logprobs = nlohmann::ordered_json::array();  // of each token: [[name, number], ...]
  std::string finish_reason;
};

struct Answer {
  std::vector<Choice> choices;
  std::string model, system_fingerprint;
  int64_t prompt_tokens = -1, completion_tokens = -1;  // of `usage`; -1: not told
  int64_t cached_tokens = -1;                          // prompt tokens that came from a cache; -1: not told
  std::vector<uint64_t> answer_seeds;                  // of each of n answers, where the endpoint tells (eadem)
};

// Takes a reply apart: the one object of a whole reply, or one event after the other.
class AnswerReader {
 public:
  // The error says what is wrong with the object: not JSON, an error that the endpoint reports, a choice that goes on
  // after its end. Returns the number of tokens (or, where tokens are not named, of pieces of text) that it brought.
  Result<int> add(std::string_view json);
  // The answer; an error where a choice has not ended.
  Result<Answer> finish();

 private:
  Result<int> add_choice(const nlohmann::ordered_json& choice);

  Answer answer_;
  bool any_ = false;
};

// What is compared of a choice: "tokens", "token_ids", "logprobs", "top_logprobs", "text", "finish_reason", those that
// are given.
nlohmann::ordered_json to_json(const Choice& choice);

// The message of an error body, OpenAI's or another; one line, at most 300 characters, empty where there is none.
std::string error_message(std::string_view body);

}  // namespace eadem::audit::black_box
