// The requests of the matrix: bodies as an endpoint understands them, prompts of a wanted length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/black_box/abilities.h"
#include "audit/black_box/traffic.h"

namespace eadem::audit::black_box {

// What is wanted of an answer, in no endpoint's words.
struct Wish {
  std::string prompt;
  std::vector<int64_t> prompt_ids;  // instead of the text, where there are any
  int max_tokens = 16;
  double temperature = 0.0;
  std::optional<uint64_t> seed;
  double presence_penalty = 0.0, top_p = 1.0;
  int n = 1;
  bool stream = true;    // where the endpoint can
  bool logprobs = true;  // where the endpoint can
  bool echo = false;
  bool chat = false;  // as a conversation although completions exist
};

Ask ask_of(const Wish& wish, const Abilities& abilities);

// About so many words of English, the same for the same numbers; texts of different `which` differ from the first word
// on. At least one word.
std::string words(int count, uint64_t which);
// Text of about so many tokens.
std::string prompt_of(int tokens, uint64_t which, const Abilities& abilities);

}  // namespace eadem::audit::black_box
