#include "engine/speculation.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "engine/model_drafter.h"
#include "engine/ngram_drafter.h"

namespace eadem::engine {

float step_cost(int64_t rows) {
  constexpr float kCost[] = {0.0f, 1.0f, 1.05f, 1.1f, 1.15f, 1.25f, 1.35f, 1.45f, 1.55f, 1.7f};
  constexpr auto kKnown = static_cast<int64_t>(std::size(kCost)) - 1;
  constexpr float kSlope = 0.15f;  // of each row more
  if (rows <= kKnown) return kCost[std::max<int64_t>(rows, 0)];
  return kCost[kKnown] + kSlope * static_cast<float>(rows - kKnown);
}

Result<std::unique_ptr<Speculation>> Speculation::create(const Options& options, const model::Model& model, int rows,
                                                         int blocks, Counters* counters) {
  const SpeculationOptions& speculation = options.speculation;
  using Kind = SpeculationOptions::Kind;
  if (speculation.kind == Kind::kOff) return std::unique_ptr<Speculation>();
  if (speculation.max_draft < 1 || speculation.max_draft > kMostDraft) {
    return Error{"max_draft is " + std::to_string(speculation.max_draft) + "; it must lie in 1 ... " +
                 std::to_string(kMostDraft)};
  }
  std::shared_ptr<Drafter> drafter = speculation.drafter;
  if (speculation.kind == Kind::kNgram) drafter = std::make_shared<NgramDrafter>();
  if (speculation.kind == Kind::kDraft) {
    if (speculation.draft_model == nullptr) return Error{"draft_model: speculation with a draft model needs one"};
    const int draft_blocks = speculation.draft_blocks > 0 ? speculation.draft_blocks : blocks;
    EADEM_ASSIGN_OR_RETURN(
        drafter, ModelDrafter::create(*speculation.draft_model, model, options.max_batch, draft_blocks, counters));
  }
  if (drafter == nullptr) return Error{"speculation: the drafter is missing"};
  return std::unique_ptr<Speculation>(
      new Speculation(std::move(drafter), speculation, rows, model.config().vocab, counters));
}

// Guesses that could save anything: the last token of all is drawn, never computed, and what is forced needs no guess.
int Speculation::room(const Sequence& sequence) const {
  const auto size = static_cast<int64_t>(sequence.tokens.size());
  if (sequence.cancelled || sequence.finished || sequence.computed + 1 != size) return 0;
  return static_cast<int>(std::clamp<int64_t>(sequence.limit - 1 - size, 0, max_draft_));
}

void Speculation::propose(std::span<const std::unique_ptr<Sequence>> running, int64_t waiting_rows) {
  candidates_.clear();
  int64_t singles = 0, others = waiting_rows;
  for (const auto& sequence : running) {
    sequence->draft.clear();
    const int64_t wanted = sequence->rows_wanted();
    if (wanted == 1) ++singles;
    if (wanted > 1) others += wanted;
    const int most = room(*sequence);
    if (most < 1) continue;
    candidates_.push_back({sequence.get(), drafter_->look(*sequence), 0});
    Outlook& outlook = candidates_.back().outlook;
    outlook.tokens = std::min(outlook.tokens, most);
  }
  grant(std::min<int64_t>(singles + others, rows_), singles);
  proposals_.clear();
  for (const Candidate& c : candidates_) {
    if (c.granted > 0) proposals_.push_back({c.sequence, c.granted, {}});
  }
  if (proposals_.empty()) return;
  drafter_->propose(proposals_);
  auto candidate = candidates_.begin();
  for (const Proposal& proposal : proposals_) {
    while (candidate->sequence != proposal.sequence) ++candidate;
    take(*candidate->sequence,
         std::span(proposal.tokens)
             .first(std::min<size_t>(proposal.tokens.size(), static_cast<size_t>(candidate->granted))));
  }
}

// Guesses join the step one by one, the likeliest first, as long as each makes the expected tokens per cost no worse
// and there is room beside the rows that are wanted anyway.
void Speculation::grant(int64_t rows, int64_t singles) {
  auto tokens = static_cast<float>(singles);
  float cost = step_cost(rows);
  for (int64_t drafts = 0; rows + drafts < rows_; ++drafts) {
    Candidate* best = nullptr;
    float chance = 0.0f;
    for (Candidate& c : candidates_) {
      if (c.granted >= c.outlook.tokens) continue;
      const float reach = c.outlook.reach[static_cast<size_t>(c.granted)];
      if (reach > chance) best = &c, chance = reach;
    }
    if (best == nullptr) return;
    const float more = step_cost(rows + drafts + 1) - step_cost(rows + drafts) + drafter_->cost();
    if (chance * cost < tokens * more && !eager_) return;
    ++best->granted;
    tokens += chance;
    cost += more;
  }
}

// What follows a token that ends the answer is not computed.
void Speculation::take(Sequence& sequence, std::span<const int32_t> guesses) const {
  for (const int32_t token : guesses) {
    if (token < 0 || token >= vocab_) return;
    if (std::find(sequence.stops.begin(), sequence.stops.end(), token) != sequence.stops.end()) return;
    sequence.draft.push_back(token);
  }
}

void Speculation::judge(Sequence& sequence, int drafted, int accepted) {
  sequence.drafted += drafted;
  sequence.accepted += accepted;
  ++counters_->draft_checks;
  counters_->drafted_tokens += static_cast<uint64_t>(drafted);
  counters_->accepted_tokens += static_cast<uint64_t>(accepted);
  drafter_->judge(sequence, drafted, accepted);
}

}  // namespace eadem::engine
