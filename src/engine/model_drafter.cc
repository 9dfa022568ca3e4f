#include "engine/model_drafter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "engine/step_runner.h"

namespace eadem::engine {
namespace {

// A step over one row reads each weight once.
float relative_cost(const model::Model& draft, const model::Model& target) {
  const auto bytes = static_cast<float>(target.weight_bytes());
  return bytes > 0.0f ? static_cast<float>(draft.weight_bytes()) / bytes : 0.1f;
}

}  // namespace

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::create(model::Model& draft, const model::Model& target,
                                                           int max_batch, int blocks, Counters* counters) {
  const int64_t vocab = draft.config().vocab;
  if (vocab != target.config().vocab) {
    return Error{"draft_model: its vocabulary has " + std::to_string(vocab) + " tokens, the model's " +
                 std::to_string(target.config().vocab) + "; take a draft model with the same tokenizer"};
  }
  const int batch = std::min(max_batch, draft.options().max_rows);
  EADEM_ASSIGN_OR_RETURN(auto pool, create_kv_pool(draft, blocks));
  const size_t bytes = static_cast<size_t>(batch) * static_cast<size_t>(vocab) * sizeof(float);
  EADEM_ASSIGN_OR_RETURN(auto logits, Buffer::allocate(bytes, "the draft model's logits"));
  return std::unique_ptr<ModelDrafter>(
      new ModelDrafter(draft, batch, relative_cost(draft, target), std::move(pool), std::move(logits), counters));
}

ModelDrafter::ModelDrafter(model::Model& draft, int batch, float cost, model::KvPool pool, Buffer logits,
                           Counters* counters)
    : draft_(draft),
      batch_(batch),
      cost_(cost),
      counters_(counters),
      cache_(std::move(pool), true, &own_),
      logits_(std::move(logits)) {
  for (int i = 0; i < draft_.pool().threads(); ++i) {
    samplers_.emplace_back(kernels_of(draft_), static_cast<int>(draft_.config().vocab));
  }
}

Outlook ModelDrafter::look(const Sequence& sequence) {
  Outlook outlook;
  const int64_t positions = std::min(draft_.config().context, int64_t{cache_.blocks()} * numerics::kKvBlock);
  const int64_t room = positions - static_cast<int64_t>(sequence.tokens.size());
  outlook.tokens = static_cast<int>(std::clamp<int64_t>(room, 0, kMostDraft));
  const float chance = states_[sequence.id].confidence.chance();
  float reach = 1.0f;
  for (int i = 0; i < outlook.tokens; ++i) {
    reach *= chance;
    outlook.reach[static_cast<size_t>(i)] = reach;
  }
  return outlook;
}

// Brings a shadow up to date with its sequence: what was guessed right is computed already.
void ModelDrafter::follow(State& state, const Sequence& sequence) {
  Sequence& shadow = state.shadow;
  const size_t known = shadow.tokens.size();
  EADEM_CHECK(known <= sequence.tokens.size());
  shadow.tokens.insert(shadow.tokens.end(), sequence.tokens.begin() + static_cast<std::ptrdiff_t>(known),
                       sequence.tokens.end());
  shadow.next_logits = static_cast<int64_t>(shadow.tokens.size()) - 1;
  size_t right = 0;
  while (right < state.guessed.size() && known + right < shadow.tokens.size() &&
         state.guessed[right] == shadow.tokens[known + right]) {
    ++right;
  }
  // All guesses but the last were computed. The last token's logits are wanted again in any case.
  if (!state.guessed.empty()) {
    shadow.computed += static_cast<int64_t>(std::min(right, state.guessed.size() - 1));
    shadow.computed = std::min(shadow.computed, shadow.next_logits);
    state.guessed.clear();
  }
  if (!shadow.table.empty()) return;
  if (known > 0) ++counters_->draft_rebuilds;
  cache_.take_cached(shadow);
}

// Takes the blocks of whoever guessed longest ago, where it is not part of this proposal.
bool ModelDrafter::reserve(State& state, int64_t positions) {
  while (!cache_.reserve(state.shadow.table, positions)) {
    State* oldest = nullptr;
    for (auto& [id, other] : states_) {
      if (other.shadow.table.empty() || other.last_used == clock_) continue;
      if (oldest == nullptr || other.last_used < oldest->last_used) oldest = &other;
    }
    if (oldest == nullptr) return false;
    oldest->guessed.clear();
    cache_.release(oldest->shadow);
  }
  return true;
}

void ModelDrafter::propose(std::span<Proposal> proposals) {
  ++clock_;
  std::vector<Work> works;
  for (Proposal& proposal : proposals.first(std::min(proposals.size(), static_cast<size_t>(batch_)))) {
    works.push_back({&proposal, &states_[proposal.sequence->id]});
    works.back().state->last_used = clock_;
  }
  for (Work& work : works) {
    follow(*work.state, *work.proposal->sequence);
    const int64_t positions = static_cast<int64_t>(work.state->shadow.tokens.size()) + work.proposal->most - 1;
    work.done = !reserve(*work.state, positions);
  }
  catch_up(works);
  const auto more = [](const Work& work) { return !work.done; };
  while (std::any_of(works.begin(), works.end(), more)) guess_next(works);
}

// One step over what the shadows lack, so that a long prompt holds nobody up for longer than that: who lacks more does
// not guess this time.
void ModelDrafter::catch_up(std::vector<Work>& works) {
  batch_rows_.clear();
  std::vector<Work*> drawing;
  int64_t left = draft_.options().max_rows;
  for (Work& work : works) {
    if (work.done) continue;
    Sequence& shadow = work.state->shadow;
    const int64_t lacking = static_cast<int64_t>(shadow.tokens.size()) - shadow.computed;
    const int64_t rows = std::min(lacking, left);
    work.done = rows < lacking;
    if (rows == 0) continue;
    left -= rows;
    const auto table = static_cast<int32_t>(batch_rows_.tables.size());
    for (int64_t end = shadow.computed + rows; shadow.computed < end; ++shadow.computed) {
      batch_rows_.rows.push_back({table, shadow.tokens[static_cast<size_t>(shadow.computed)], shadow.computed});
    }
    batch_rows_.tables.push_back(shadow.table.data());
    if (work.done) continue;
    batch_rows_.outputs.push_back(static_cast<int32_t>(batch_rows_.rows.size()) - 1);
    drawing.push_back(&work);
  }
  run(drawing);
  for (Work& work : works) cache_.register_blocks(work.state->shadow);
}

// One step over the last guess of each.
void ModelDrafter::guess_next(std::vector<Work>& works) {
  batch_rows_.clear();
  std::vector<Work*> drawing;
  for (Work& work : works) {
    if (work.done) continue;
    const std::vector<int32_t>& guessed = work.proposal->tokens;
    const int64_t position = static_cast<int64_t>(work.state->shadow.tokens.size() + guessed.size()) - 1;
    batch_rows_.outputs.push_back(static_cast<int32_t>(batch_rows_.rows.size()));
    batch_rows_.rows.push_back({static_cast<int32_t>(batch_rows_.tables.size()), guessed.back(), position});
    batch_rows_.tables.push_back(work.state->shadow.table.data());
    drawing.push_back(&work);
  }
  run(drawing);
}

// Runs the rows and draws for those whose outputs they hold, in that order.
void ModelDrafter::run(std::vector<Work*>& drawing) {
  if (batch_rows_.rows.empty()) return;
  draft_.forward(batch_rows_, cache_.pool());
  draft_.finish();
  ++counters_->draft_steps;
  counters_->draft_rows += batch_rows_.rows.size();
  if (drawing.empty()) return;
  draft_.logits(0, static_cast<int>(drawing.size()), logits_.as<float>());
  draft_.pool().run(static_cast<int>(drawing.size()),
                    [&](int output, int worker) { draw(*drawing[static_cast<size_t>(output)], output, worker); });
}

// As the engine would draw, but that penalties do not count what is only guessed, and no grammar is asked.
void ModelDrafter::draw(Work& work, int output, int worker) {
  const Sequence& sequence = *work.proposal->sequence;
  sampler::Draw draw;
  draw.logits = logits_.as<float>() + static_cast<int64_t>(output) * draft_.config().vocab;
  draw.params = &sequence.sampling;
  draw.seed = sequence.seed;
  draw.position = static_cast<int64_t>(sequence.tokens.size() + work.proposal->tokens.size());
  if (sampler::needs_counts(sequence.sampling)) draw.counts = &sequence.counts;
  if (draw.position - sequence.prompt < sequence.sampling.min_tokens) draw.masked = sequence.stops;
  const auto drawn = samplers_[static_cast<size_t>(worker)].draw(draw);
  if (drawn.ok()) {
    work.proposal->tokens.push_back(drawn.value().token);
    work.state->guessed.push_back(drawn.value().token);
  }
  work.done = !drawn.ok() || static_cast<int>(work.proposal->tokens.size()) >= work.proposal->most;
}

void ModelDrafter::judge(const Sequence& sequence, int drafted, int accepted) {
  const auto found = states_.find(sequence.id);
  if (found != states_.end()) found->second.confidence.add(drafted, accepted);
}

void ModelDrafter::forget(SequenceId id) {
  const auto found = states_.find(id);
  if (found == states_.end()) return;
  cache_.release(found->second.shadow);
  states_.erase(found);
}

}  // namespace eadem::engine
