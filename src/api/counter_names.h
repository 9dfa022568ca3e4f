// The engine's counters by name: one table for metrics, for --stats, and for the proofs of an acceptance.
#pragma once

#include <cstdint>

#include "eadem/engine.h"

namespace eadem::api {

struct NamedCounter {
  const char* name;
  uint64_t Counters::* field;
  bool is_maximum = false;  // the largest value seen; all others are sums
};

inline constexpr NamedCounter kCounters[] = {
    {"steps", &Counters::steps},
    {"rows", &Counters::rows},
    {"mixed_steps", &Counters::mixed_steps},
    {"chunked_prompts", &Counters::chunked_prompts},
    {"prefix_hit_tokens", &Counters::prefix_hit_tokens},
    {"prefix_hits", &Counters::prefix_hits},
    {"prefix_evictions", &Counters::prefix_evictions},
    {"preemptions", &Counters::preemptions},
    {"recomputed_tokens", &Counters::recomputed_tokens},
    {"finished", &Counters::finished},
    {"failed", &Counters::failed},
    {"cancelled", &Counters::cancelled},
    {"timed_out", &Counters::timed_out},
    {"max_rows", &Counters::max_rows, true},
    {"max_sequences", &Counters::max_sequences, true},
    {"aged_admissions", &Counters::aged_admissions},
    {"held_chunks", &Counters::held_chunks},
    {"prepared_blocks", &Counters::prepared_blocks},
    {"overlapped_steps", &Counters::overlapped_steps},
    {"ahead_steps", &Counters::ahead_steps},
    {"discarded_rows", &Counters::discarded_rows},
    {"masked_rows", &Counters::masked_rows},
    {"drafted_tokens", &Counters::drafted_tokens},
    {"accepted_tokens", &Counters::accepted_tokens},
    {"draft_checks", &Counters::draft_checks},
    {"draft_steps", &Counters::draft_steps},
    {"draft_rows", &Counters::draft_rows},
    {"draft_rebuilds", &Counters::draft_rebuilds},
    {"kernel_calls", &Counters::kernel_calls},
};

}  // namespace eadem::api
