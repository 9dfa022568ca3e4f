// Prometheus' text exposition format 0.0.4, and the engine's counters by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eadem/engine.h"
#include "server/metrics.h"

namespace eadem::server {

struct NamedCounter {
  const char* name;
  uint64_t Counters::* field;
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
    {"max_rows", &Counters::max_rows},
    {"max_sequences", &Counters::max_sequences},
    {"aged_admissions", &Counters::aged_admissions},
    {"held_chunks", &Counters::held_chunks},
    {"prepared_blocks", &Counters::prepared_blocks},
    {"overlapped_steps", &Counters::overlapped_steps},
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

// Builds one exposition. Names that begin with `vllm:` get the labels that vLLM gives (model_name, engine).
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  explicit PrometheusText(std::string model) : model_(std::move(model)) {}

  // # HELP and # TYPE; its samples must follow at once.
  void head(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::string_view name, const Labels& labels, uint64_t value);
  void sample(std::string_view name, const Labels& labels, double value);

  void gauge(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, uint64_t value);
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram);

  std::string take() && { return std::move(text_); }

 private:
  void line(std::string_view name, std::string_view suffix, const Labels& labels, std::string_view value);

  std::string model_, text_;
};

}  // namespace eadem::server
