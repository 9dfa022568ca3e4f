#include "audit/black_box/site.h"

#include <algorithm>
#include <span>

#include "core/sha256.h"

namespace eadem::audit::black_box {
namespace {

constexpr int kMargin = 24;              // tokens: lengths are estimates, and chat templates add some
constexpr int kUnknownContext = 2048;    // tokens that an endpoint which does not tell is taken to have
constexpr double kCompanySeconds = 0.5;  // that a neighbour runs, at least, as fast as the endpoint is alone
constexpr int kMostNeighbourAnswer = 600;
constexpr uint64_t kNeighbours = 1000, kSubjects = 10;  // numbers of prompts (request.h)

}  // namespace

Site::Site(Traffic& traffic, Abilities abilities, const EndpointOptions& options)
    : traffic_(traffic), can_(std::move(abilities)), options_(options) {
  const int context = static_cast<int>(std::min<int64_t>(can_.context > 0 ? can_.context : kUnknownContext, 1 << 20));
  if (can_.token_seconds > 0.0) {
    const double wanted = kCompanySeconds / can_.token_seconds;
    sizes_.neighbour_answer =
        static_cast<int>(std::clamp<double>(wanted, sizes_.neighbour_answer, kMostNeighbourAnswer));
  }
  // A small context: everything shorter, down to what still is a request.
  const int room = std::max(context - sizes_.answer - kMargin, 1);
  for (int& tokens : sizes_.prompts) tokens = std::min(tokens, room);
  sizes_.long_prompt = std::min(sizes_.long_prompt, room);
  sizes_.neighbour_prompt = std::min(sizes_.neighbour_prompt, room / 4 + 1);
}

int Site::fitting(int answer, int prompt) const {
  const int64_t context = can_.context > 0 ? can_.context : kUnknownContext;
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(answer, context - prompt - kMargin)));
}

std::vector<Subject> Site::subjects() const {
  std::vector<Subject> all;
  for (size_t i = 0; i < sizes_.prompts.size(); ++i) {
    const int tokens = sizes_.prompts[i];
    Wish wish;
    wish.prompt = prompt_of(tokens, kSubjects + i, can_);
    wish.max_tokens = sizes_.answer;
    all.push_back({"greedy-" + std::to_string(tokens), wish});
  }
  return all;
}

Subject Site::middle() const { return subjects()[1]; }

Subject Site::seeded() const {
  Subject subject = middle();
  subject.id = "seeded-" + std::to_string(sizes_.prompts[1]);
  subject.wish.temperature = 1.0;
  subject.wish.seed = 20261;
  return subject;
}

Wish Site::neighbour(int i, int grow) const {
  // Of different lengths: a half to one and a half times the usual one.
  const int tokens = sizes_.neighbour_prompt * (2 + i % 5) / 4;
  Wish wish;
  wish.prompt = prompt_of(tokens, kNeighbours + static_cast<uint64_t>(i), can_);
  wish.max_tokens = fitting(sizes_.neighbour_answer * grow, tokens);
  if (i % 3 == 1) wish.temperature = 0.8;
  if (i % 3 == 2) wish.temperature = 1.2, wish.top_p = 0.9;
  if (wish.temperature > 0 && can_.seed) wish.seed = 100 + static_cast<uint64_t>(i);
  return wish;
}

void Site::remember(const Answer& answer) {
  ++answers_;
  if (!answer.system_fingerprint.empty()) fingerprints_.insert(answer.system_fingerprint);
}

std::optional<Answer> Site::answer_of(const std::string& id, const Wish& wish, Trial& trial) {
  const auto sent = traffic_.ask_alone(ask(wish));
  if (!sent->ok()) {
    trial.no_answer(id, *sent);
    return std::nullopt;
  }
  remember(sent->answer);
  return sent->answer;
}

const Choice* Site::alone(const Subject& subject, Trial& trial) {
  const Ask what = ask(subject.wish);
  const std::string key = what.path + what.body.dump();
  if (const auto found = alone_.find(key); found != alone_.end()) return &found->second.choice;
  if (!answer_of(subject.id, subject.wish, trial)) return nullptr;
  const auto answer = answer_of(subject.id, subject.wish, trial);
  if (!answer) return nullptr;
  return &alone_.emplace(key, Alone{subject.id, answer->choices.front()}).first->second.choice;
}

nlohmann::ordered_json Site::requests() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [key, alone] : alone_) {
    const std::string text = to_json(alone.choice).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    Sha256 hash;
    hash.update(std::as_bytes(std::span(text)));
    all.push_back({{"id", alone.id},
                   {"tokens", std::max(alone.choice.tokens.size(), alone.choice.token_ids.size())},
                   {"answer_hash", hash.hex()}});
  }
  return all;
}

}  // namespace eadem::audit::black_box
