// What all cells share: the endpoint, what it can do, the requests, and their answers alone.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/black_box/abilities.h"
#include "audit/black_box/request.h"
#include "audit/black_box/traffic.h"
#include "audit/black_box/trial.h"

namespace eadem::audit::black_box {

// Sizes of requests, in tokens, about.
struct Sizes {
  int answer = 24;                                   // of a request that is compared
  std::vector<int> prompts = {8, 40, 130, 300};      // of requests that are compared
  int neighbour_prompt = 40, neighbour_answer = 72;  // of the others
  int long_prompt = 400;                             // of what arrives while others draw
};

struct Subject {
  std::string id;  // "greedy-40"
  Wish wish;
};

class Site {
 public:
  Site(Traffic& traffic, Abilities abilities, const EndpointOptions& options);

  Traffic& traffic() { return traffic_; }
  const Abilities& can() const { return can_; }
  const Sizes& sizes() const { return sizes_; }
  int max_neighbours() const { return options_.max_concurrent - 1; }

  // The requests whose answers are compared; the shortest prompt first.
  std::vector<Subject> subjects() const;
  // The one of middle length, and the same drawn with a seed at temperature 1.
  Subject middle() const;
  Subject seeded() const;
  Ask ask(const Wish& wish) const { return ask_of(wish, can_); }
  // Request number i that is not compared: mixed sampling where the endpoint takes seeds. The answer is `grow` times
  // as long as usual, as far as the context reaches.
  Wish neighbour(int i, int grow) const;
  // Limits an answer to what fits the context behind a prompt of about so many tokens.
  int fitting(int answer, int prompt) const;

  // One request with none of ours beside it; the trial is told where there is no answer. What the endpoint says of
  // itself is remembered.
  std::optional<Answer> answer_of(const std::string& id, const Wish& wish, Trial& trial);
  // The answer alone, asked for once. A request goes ahead of it, so that whatever the endpoint keeps of a prompt, it
  // keeps for this one as for all that follow.
  const Choice* alone(const Subject& subject, Trial& trial);
  void remember(const Answer& answer);
  const std::set<std::string>& fingerprints() const { return fingerprints_; }
  int64_t answers() const { return answers_; }
  // The requests that were asked alone: "id", "tokens", and the hash of all that is compared of the answer.
  nlohmann::ordered_json requests() const;

  // What earlier cells found. Empty: nothing that speaks against it.
  std::string no_company;  // why requests cannot be said to run together
  std::string no_seed;     // why a seed does not fix an answer

 private:
  struct Alone {
    std::string id;
    Choice choice;
  };

  Traffic& traffic_;
  Abilities can_;
  EndpointOptions options_;
  Sizes sizes_;
  std::map<std::string, Alone> alone_;  // by path and body
  std::set<std::string> fingerprints_;
  int64_t answers_ = 0;
};

}  // namespace eadem::audit::black_box
