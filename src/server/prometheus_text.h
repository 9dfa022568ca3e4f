// Prometheus' text exposition format 0.0.4, and the engine's counters by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/metrics.h"

namespace eadem::server {

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
