#include "audit/black_box/request.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace eadem::audit::black_box {
namespace {

constexpr std::string_view kSubjects[] = {"The ferryman",   "A clockmaker",     "Our neighbour", "The old lighthouse",
                                          "Every gardener", "The night train",  "A quiet river", "The youngest pilot",
                                          "That bakery",    "The museum guard", "One violinist", "The harbour cat"};
constexpr std::string_view kVerbs[] = {"remembers",          "has never seen", "was built beside",   "sells maps of",
                                       "keeps asking about", "once repaired",  "carries letters to", "paints"};
constexpr std::string_view kObjects[] = {
    "the seven bridges",       "a winter without snow",       "the market in spring",
    "an island of 312 people", "the first telegraph office",  "two kinds of tea",
    "the road over the hills", "a library of borrowed books", "the morning fog"};
constexpr std::string_view kEnds[] = {"and tells nobody.",    "since 1897.",        "for a small fee.",
                                      "when the bells ring.", "although it rains.", "with great care."};

// A sequence of numbers that is the same everywhere (Knuth's MMIX constants).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) { next(1); }
  size_t next(size_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state_ >> 33) % below);
  }

 private:
  uint64_t state_;
};

template <size_t kCount>
std::string_view pick(const std::string_view (&list)[kCount], Numbers& numbers) {
  return list[numbers.next(kCount)];
}

}  // namespace

std::string words(int count, uint64_t which) {
  Numbers numbers(which);
  std::string text = "Note " + std::to_string(which) + ".";
  int have = 2;
  while (have < count) {
    for (const std::string_view part :
         {pick(kSubjects, numbers), pick(kVerbs, numbers), pick(kObjects, numbers), pick(kEnds, numbers)}) {
      text += ' ';
      text += part;
      have += static_cast<int>(std::count(part.begin(), part.end(), ' ')) + 1;
    }
  }
  int left = std::max(count, 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' && --left == 0) return text.substr(0, i);
  }
  return text;
}

std::string prompt_of(int tokens, uint64_t which, const Abilities& abilities) {
  return words(static_cast<int>(std::floor(tokens / abilities.tokens_per_word)), which);
}

Ask ask_of(const Wish& wish, const Abilities& abilities) {
  const bool chat = wish.chat || !abilities.completions;
  Ask ask;
  ask.path = chat ? "/chat/completions" : "/completions";
  nlohmann::ordered_json& body = ask.body;
  body["model"] = abilities.model;
  if (chat) {
    body["messages"] = {{{"role", "user"}, {"content", wish.prompt}}};
  } else if (!wish.prompt_ids.empty()) {
    body["prompt"] = wish.prompt_ids;
  } else {
    body["prompt"] = wish.prompt;
  }
  body[abilities.max_tokens] = wish.max_tokens;
  body["temperature"] = wish.temperature;
  if (wish.seed) body["seed"] = *wish.seed;
  if (wish.top_p != 1.0) body["top_p"] = wish.top_p;
  if (wish.presence_penalty != 0.0) body["presence_penalty"] = wish.presence_penalty;
  if (wish.n != 1) body["n"] = wish.n;
  if (wish.echo) body["echo"] = true;
  if (wish.logprobs && abilities.logprobs) {
    if (chat) {
      body["logprobs"] = true;
      body["top_logprobs"] = 2;
    } else {
      body["logprobs"] = 2;
    }
  }
  if (abilities.token_ids) body["return_token_ids"] = true;
  if (abilities.ignore_eos) body["ignore_eos"] = true;
  if (wish.stream && abilities.streaming) {
    body["stream"] = true;
    if (abilities.stream_usage) body["stream_options"] = {{"include_usage", true}};
  }
  return ask;
}

}  // namespace eadem::audit::black_box
