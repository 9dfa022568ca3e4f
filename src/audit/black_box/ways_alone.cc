#include <algorithm>
#include <cstdlib>
#include <random>

#include "audit/black_box/ways.h"

namespace eadem::audit::black_box {
namespace {

using Values = std::vector<std::string>;

constexpr const char* kNoLogprobs = "the endpoint gives no logprobs";

int number_of(const std::string& value) { return std::max(1, std::atoi(value.c_str())); }

// The most that the gauge said since reading number `first`: whether we were alone.
void note_alone(Site& site, size_t first, Trial& trial) {
  const auto& readings = site.traffic().readings();
  if (readings.size() <= first) return;
  double most = 0.0;
  for (size_t i = first; i < readings.size(); ++i) most = std::max(most, readings[i].running);
  trial.note("gauge_most_running", most);
}

// The subject again, with another wish; compared with its answer alone.
void again(Site& site, const Subject& subject, const Wish& wish, Trial& trial, Extent extent = Extent::kAll) {
  const Choice* baseline = site.alone(subject, trial);
  if (baseline == nullptr) return;
  const auto answer = site.answer_of(subject.id, wish, trial);
  if (answer) trial.compare(subject.id, *baseline, answer->choices.front(), extent);
}

}  // namespace

void run_repeat(Site& site, const Values& values, Trial& trial) {
  for (const std::string& value : values) {
    trial.begin(value);
    const size_t readings = site.traffic().readings().size();
    for (const Subject& subject : site.subjects()) {
      for (int i = 0; i < number_of(value) && trial.lost().empty(); ++i) again(site, subject, subject.wish, trial);
    }
    note_alone(site, readings, trial);
  }
}

void run_seeded_repeat(Site& site, const Values& values, Trial& trial) {
  if (!site.can().seed) {
    site.no_seed = "the endpoint takes no seed";
    return trial.cannot(site.no_seed);
  }
  for (const std::string& value : values) {
    trial.begin(value);
    const Subject subject = site.seeded();
    for (int i = 0; i < number_of(value) && trial.lost().empty(); ++i) again(site, subject, subject.wish, trial);
    Wish other = subject.wish;
    other.seed = *other.seed + 1;
    const auto answer = site.answer_of("another seed", other, trial);
    const Choice* baseline = site.alone(subject, trial);
    if (answer && baseline) trial.note("another_seed_differs", answer->choices.front().text != baseline->text);
  }
  if (trial.differed()) site.no_seed = "alone, the same seed gives different answers";
}

void run_streamed(Site& site, const Values&, Trial& trial) {
  if (!site.can().streaming) return trial.cannot(site.can().no_stream);
  for (const Subject& subject : site.subjects()) {
    Wish whole = subject.wish;
    whole.stream = false;
    again(site, subject, whole, trial, Extent::kCommon);
  }
}

void run_without_logprobs(Site& site, const Values&, Trial& trial) {
  if (!site.can().logprobs) return trial.cannot(kNoLogprobs);
  for (const Subject& subject : site.subjects()) {
    Wish plain = subject.wish;
    plain.logprobs = false;
    again(site, subject, plain, trial, Extent::kCommon);
  }
}

void run_shorter(Site& site, const Values& values, Trial& trial) {
  for (const std::string& value : values) {
    trial.begin(value);
    for (const Subject& subject : site.subjects()) {
      Wish shorter = subject.wish;
      shorter.max_tokens = std::min(number_of(value), shorter.max_tokens - 1);
      again(site, subject, shorter, trial, Extent::kPrefix);
    }
  }
}

// Greedy answers of one request are all the same one; answers with a seed are those of requests with their own seeds,
// where those are told.
void run_several(Site& site, const Values& values, Trial& trial) {
  if (!site.can().n) return trial.cannot("the endpoint takes no n");
  for (const std::string& value : values) {
    trial.begin(value);
    const Subject greedy = site.middle();
    Wish wish = greedy.wish;
    wish.n = number_of(value);
    const Choice* baseline = site.alone(greedy, trial);
    const auto answers = site.answer_of(greedy.id, wish, trial);
    if (baseline == nullptr || !answers) return;
    for (const Choice& choice : answers->choices) trial.compare(greedy.id, *baseline, choice);
    trial.note("answers", answers->choices.size());
    if (!site.can().answer_seeds || !site.no_seed.empty()) continue;
    Subject seeded = site.seeded();
    seeded.wish.n = number_of(value);
    const auto drawn = site.answer_of(seeded.id, seeded.wish, trial);
    if (!drawn || drawn->answer_seeds.size() != drawn->choices.size()) continue;
    for (size_t i = 0; i < drawn->choices.size(); ++i) {
      Wish single = site.seeded().wish;
      single.seed = drawn->answer_seeds[i];
      const auto answer = site.answer_of(seeded.id, single, trial);
      if (answer) trial.compare(seeded.id, drawn->choices[i], answer->choices.front());
    }
    trial.note("seeded_answers", drawn->choices.size());
  }
}

void run_token_prompt(Site& site, const Values&, Trial& trial) {
  if (!site.can().token_prompt)
    return trial.cannot("the endpoint takes no token ids, or does not tell those of a prompt");
  for (const Subject& subject : site.subjects()) {
    const Choice* baseline = site.alone(subject, trial);
    if (baseline == nullptr) return;
    Wish wish = subject.wish;
    wish.prompt_ids = baseline->prompt_token_ids;
    if (wish.prompt_ids.empty()) return trial.cannot("the endpoint does not tell a prompt's token ids in a stream");
    again(site, subject, wish, trial);
  }
}

// The same tokens read as a prompt have the logprobs that they had when drawn.
void run_scoring(Site& site, const Values&, Trial& trial) {
  if (!site.can().echo) return trial.cannot("the endpoint does not score prompts (echo with logprobs, token ids)");
  for (const Subject& subject : site.subjects()) {
    const Choice* baseline = site.alone(subject, trial);
    if (baseline == nullptr) return;
    if (baseline->prompt_token_ids.empty() || baseline->token_ids.empty())
      return trial.cannot("the endpoint does not tell token ids in a stream");
    Wish wish = subject.wish;
    wish.prompt_ids = baseline->prompt_token_ids;
    wish.prompt_ids.insert(wish.prompt_ids.end(), baseline->token_ids.begin(), baseline->token_ids.end());
    wish.echo = true;
    wish.max_tokens = 1;
    wish.stream = false;
    const auto answer = site.answer_of(subject.id, wish, trial);
    if (!answer) return;
    const nlohmann::ordered_json& all = answer->choices.front().logprobs;
    const size_t from = baseline->prompt_token_ids.size(), count = baseline->logprobs.size();
    Choice drawn, scored;
    drawn.logprobs = baseline->logprobs;
    for (size_t i = from; i < std::min(all.size(), from + count); ++i) scored.logprobs.push_back(all[i]);
    trial.compare(subject.id, drawn, scored);
  }
}

// A prompt that the endpoint has never seen, then again; and one whose beginning alone it has seen, then again.
void run_prefix(Site& site, const Values& values, Trial& trial) {
  const uint64_t nonce = std::random_device{}() % 1000000000u + 1000000000u;
  const int length = site.sizes().prompts.back();
  for (const std::string& value : values) {
    trial.begin(value);
    Wish wish = site.middle().wish;
    const std::string beginning = prompt_of(length, nonce + (value == "partial" ? 1 : 0), site.can());
    trial.note("note_number", nonce);
    wish.prompt = beginning;
    if (value == "partial") {
      wish.prompt = beginning.substr(0, beginning.size() * 3 / 4) + " elsewhere";
      if (!site.answer_of("beginning", wish, trial)) return;
      wish.prompt = beginning;
    }
    const auto first = site.answer_of(value, wish, trial), second = site.answer_of(value, wish, trial);
    if (!first || !second) return;
    trial.compare(value, first->choices.front(), second->choices.front());
    if (!site.can().cached_tokens) continue;
    trial.note("cached_tokens", {first->cached_tokens, second->cached_tokens});
    if (second->cached_tokens <= first->cached_tokens)
      trial.cannot("no prompt token came from a cache (usage.prompt_tokens_details.cached_tokens)");
  }
  if (!site.can().cached_tokens)
    trial.cannot("the endpoint does not tell how much of a prompt came from its cache; answers were equal");
}

void run_afterwards(Site& site, const Values& values, Trial& trial) {
  for (const std::string& value : values) {
    trial.begin(value);
    trial.note("requests_before", site.traffic().requests());
    if (value == "idle") site.traffic().run_until([] { return false; }, 2.0);
    for (const Subject& subject : site.subjects()) again(site, subject, subject.wish, trial);
  }
}

void run_fingerprint(Site& site, const Values&, Trial& trial) {
  trial.begin("");
  trial.note("answers", site.answers());
  trial.note("system_fingerprint", site.fingerprints());
  trial.held();
  if (site.fingerprints().empty()) return trial.cannot("the endpoint tells no system_fingerprint");
  if (site.fingerprints().size() > 1)
    trial.fail("the endpoint told " + std::to_string(site.fingerprints().size()) +
               " system_fingerprints: its configuration changed, or there are several behind one address");
}

}  // namespace eadem::audit::black_box
