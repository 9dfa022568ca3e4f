#include "engine/ngram_drafter.h"

#include <algorithm>

#include "core/check.h"

namespace eadem::engine {
namespace {

constexpr int kMostLooked = 32;   // earlier places that are compared
constexpr int kMostMatched = 32;  // tokens of a match that count
// Trials imagined for each class of matches: what a sequence's own experience has to outweigh.
constexpr float kPriorTrials = 4.0f;

uint64_t pair_of(const std::vector<int32_t>& tokens, int64_t end) {
  return static_cast<uint64_t>(static_cast<uint32_t>(tokens[static_cast<size_t>(end - 1)])) << 32 |
         static_cast<uint32_t>(tokens[static_cast<size_t>(end)]);
}

}  // namespace

int NgramDrafter::class_of(int matched) {
  constexpr int kLast[kClasses - 1] = {2, 3, 4, 6, 9, 15};
  return static_cast<int>(std::lower_bound(std::begin(kLast), std::end(kLast), matched) - std::begin(kLast));
}

// The longer the match, the likelier it goes on.
NgramDrafter::State::State()
    : confidence{Confidence(0.40f, kPriorTrials), Confidence(0.55f, kPriorTrials), Confidence(0.65f, kPriorTrials),
                 Confidence(0.75f, kPriorTrials), Confidence(0.80f, kPriorTrials), Confidence(0.85f, kPriorTrials),
                 Confidence(0.90f, kPriorTrials)} {}

// Every pair but the last, which is what find() looks for.
void NgramDrafter::index(State& state, const std::vector<int32_t>& tokens) {
  state.before.reserve(tokens.size());
  if (state.before.empty()) state.before.push_back(-1);  // position 0 ends no pair
  for (auto end = static_cast<int64_t>(state.before.size()); end + 1 < static_cast<int64_t>(tokens.size()); ++end) {
    const auto [entry, is_new] = state.latest.try_emplace(pair_of(tokens, end), static_cast<int32_t>(end));
    state.before.push_back(is_new ? -1 : entry->second);
    entry->second = static_cast<int32_t>(end);
  }
}

NgramDrafter::Match NgramDrafter::find(const State& state, const std::vector<int32_t>& tokens) {
  Match best;
  const int64_t last = static_cast<int64_t>(tokens.size()) - 1;
  if (last < 1) return best;
  const auto entry = state.latest.find(pair_of(tokens, last));
  if (entry == state.latest.end()) return best;
  int looked = 0;
  for (int64_t end = entry->second; end >= 0 && looked < kMostLooked; end = state.before[end], ++looked) {
    int length = 2;
    while (length < kMostMatched && end >= length && tokens[end - length] == tokens[last - length]) ++length;
    if (length > best.length) best = {end, length};
    if (length == kMostMatched) break;
  }
  return best;
}

Outlook NgramDrafter::look(const Sequence& sequence) {
  State& state = states_[sequence.id];
  index(state, sequence.tokens);
  state.match = find(state, sequence.tokens);
  Outlook outlook;
  if (state.match.end < 0) return outlook;
  outlook.tokens = kMostDraft;
  float reach = 1.0f;
  for (int i = 0; i < kMostDraft; ++i) {
    reach *= state.confidence[static_cast<size_t>(class_of(state.match.length + i))].chance();
    outlook.reach[static_cast<size_t>(i)] = reach;
  }
  return outlook;
}

void NgramDrafter::propose(std::span<Proposal> proposals) {
  for (Proposal& proposal : proposals) {
    const std::vector<int32_t>& tokens = proposal.sequence->tokens;
    const Match match = states_[proposal.sequence->id].match;
    EADEM_CHECK(match.end >= 0);
    const size_t from = static_cast<size_t>(match.end) + 1;
    for (size_t i = 0; i < static_cast<size_t>(proposal.most); ++i) {
      const size_t at = from + i;
      proposal.tokens.push_back(at < tokens.size() ? tokens[at] : proposal.tokens[at - tokens.size()]);
    }
  }
}

// A guess behind right ones was made on a longer match.
void NgramDrafter::judge(const Sequence& sequence, int drafted, int accepted) {
  const auto found = states_.find(sequence.id);
  if (found == states_.end()) return;
  State& state = found->second;
  for (int i = 0; i < drafted && i <= accepted; ++i) {
    state.confidence[static_cast<size_t>(class_of(state.match.length + i))].add(1, i < accepted ? 1 : 0);
  }
}

}  // namespace eadem::engine
