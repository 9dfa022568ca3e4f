// One answer on its way: its tokens, what of them is computed, and where its keys and values are. A sequence is
// neither "prefilling" nor "decoding": it has rows that are still to compute, and some of them have logits that
// someone wants.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "sampler/token_counts.h"

namespace eadem::engine {

struct Sequence {
  // Filled by submit, never changed.
  SequenceId id = 0;
  SamplingParams sampling;
  uint64_t seed = 0;
  bool wants_kv_hash = false;
  int priority = 0;  // smaller comes first
  std::optional<std::chrono::steady_clock::time_point> deadline;
  Pooling pooling = Pooling::kNone;
  Listener* listener = nullptr;
  int64_t prompt = 0;  // tokens of the prompt: preemption does not move this border
  // Prompt and forced continuation: stop tokens are obeyed from the last forced token on
  int64_t forced_end = 0;
  int64_t limit = 0;           // tokens at which it ends
  std::vector<int32_t> stops;  // tokens that end it

  // Grown by commit.
  std::vector<int32_t> tokens;  // prompt, forced continuation (known ahead), then what was drawn
  // Position of the first row whose logits (of a pooled sequence: whose hidden state) are still wanted; token
  // next_logits is the last one drawn
  int64_t next_logits = 0;
  int64_t told_logits = 0;                  // likewise, of what its listener was told
  sampler::TokenCounts counts;              // where a penalty is on
  std::unique_ptr<TokenGuide> guide;        // past the tokens of the answer that were drawn; null: none
  std::vector<SampledToken> prompt_tokens;  // where prompt_logprobs are wanted
  std::vector<double> pooled;               // of a pooled sequence: the sum of its hidden states so far, [hidden]
  int64_t pooled_rows = 0;
  bool prompt_told = false, start_told = false;
  int64_t forced_preemptions = 0;
  int preemptions = 0;

  // Kept by the scheduler.
  std::vector<int32_t> table;     // its KV blocks, in order of position
  int64_t computed = 0;           // positions 0 ... computed - 1 are in them
  int64_t most_computed = 0;      // before any preemption
  int64_t registered = 0;         // leading blocks that the prefix cache knows
  uint64_t chain = 0;             // the prefix cache's name of the last of those
  int cached_tokens = -1;         // -1: not admitted yet
  bool scheduled = false;         // has rows in this step
  bool favoured = false;          // waited longest when it was such a one's turn: comes before all that are not
  std::vector<int32_t> draft;     // guesses at what follows `tokens`, for the step that is scheduled next
  int drafted = 0, accepted = 0;  // guesses so far that were computed, and those that were right

  int64_t under_way = 0;  // rows in steps that are being computed: positions computed ... computed + under_way - 1
  int promised = 0;       // tokens that those steps will draw past `tokens`
  int drawn_by = -1;      // the output of the last of those steps that draws the last of these
  bool cancelled = false;
  bool finished = false;  // computes nothing more
  bool told = false;      // its listener knows that it finished

  bool wants_prompt_logprobs() const { return sampling.prompt_logprobs >= 0; }
  // The position of the next row, once the steps under way are done.
  int64_t reached() const { return computed + under_way; }
  // Tokens, those counted in that the steps under way will draw.
  int64_t length() const { return static_cast<int64_t>(tokens.size()) + promised; }
  // Rows still to compute that are not under way. What would follow the last token of all is not asked for.
  int64_t rows_wanted() const { return cancelled || finished ? 0 : std::min(length(), limit - 1) - reached(); }
  // Who gets rows, blocks and admission first: a total order that no result depends on.
  bool before(const Sequence& other) const {
    if (favoured != other.favoured) return favoured;
    return priority != other.priority ? priority < other.priority : id < other.id;
  }
  // Tokens of the answer that were drawn.
  int64_t drawn() const { return next_logits + 1 - prompt; }
};

}  // namespace eadem::engine
