#include "server/prometheus_text.h"

#include <charconv>

namespace eadem::server {
namespace {

std::string number(double value) {
  char text[32];
  const auto [end, fault] = std::to_chars(text, text + sizeof text, value);
  return {text, end};
}

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void PrometheusText::head(std::string_view name, std::string_view type, std::string_view help) {
  for (const auto& [key, rest] : {std::pair{"# HELP ", help}, std::pair{"# TYPE ", type}}) {
    text_.append(key).append(name).append(" ").append(rest).append("\n");
  }
}

void PrometheusText::line(std::string_view name, std::string_view suffix, const Labels& labels,
                          std::string_view value) {
  text_.append(name).append(suffix);
  char separator = '{';
  const auto add = [&](std::string_view key, std::string_view text) {
    text_ += separator;
    text_.append(key).append("=\"").append(escaped(text)).append("\"");
    separator = ',';
  };
  if (name.starts_with("vllm:")) {
    add("model_name", model_);
    add("engine", "0");
  }
  for (const auto& [key, text] : labels) add(key, text);
  if (separator == ',') text_ += '}';
  text_.append(" ").append(value).append("\n");
}

void PrometheusText::sample(std::string_view name, const Labels& labels, uint64_t value) {
  line(name, "", labels, std::to_string(value));
}

void PrometheusText::sample(std::string_view name, const Labels& labels, double value) {
  line(name, "", labels, number(value));
}

void PrometheusText::gauge(std::string_view name, std::string_view help, double value) {
  head(name, "gauge", help);
  sample(name, {}, value);
}

void PrometheusText::counter(std::string_view name, std::string_view help, uint64_t value) {
  head(name, "counter", help);
  sample(name, {}, value);
}

void PrometheusText::histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
  const Histogram::Reading reading = histogram.read();
  head(name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i < reading.counts.size(); ++i) {
    below += reading.counts[i];
    const bool last = i == reading.bounds.size();
    line(name, "_bucket", {{"le", last ? "+Inf" : number(reading.bounds[i])}}, std::to_string(below));
  }
  line(name, "_sum", {}, number(reading.sum));
  line(name, "_count", {}, std::to_string(reading.count));
}

}  // namespace eadem::server
