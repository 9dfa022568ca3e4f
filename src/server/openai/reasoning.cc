#include "server/openai/reasoning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/lark.h"

namespace eadem::server {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

void drop_leading_space(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kSpace), text.size())); }

// Bytes at the end of `text` that may be the beginning of `marker`.
size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return size;
  }
  return 0;
}

// Without the white space at its end.
size_t trimmed_size(std::string_view text) { return text.find_last_not_of(kSpace) + 1; }

}  // namespace

bool template_reasons(std::string_view chat_template) { return chat_template.find(kClose) != std::string_view::npos; }

bool prompt_opens_reasoning(std::string_view prompt) {
  const size_t open = prompt.rfind(kOpen);
  return open != std::string_view::npos && prompt.find_first_not_of(kSpace, open + kOpen.size()) == prompt.npos;
}

Result<Guide> guide_after_reasoning(const Guide& guide, bool opened) {
  std::string answer;
  switch (guide.kind) {
    case Guide::Kind::kJsonSchema: {
      const auto schema = nlohmann::ordered_json::parse(guide.text, nullptr, false);
      if (schema != true && !schema.is_object()) return Error{"a JSON schema is an object"};
      answer = lark_schema(schema.is_object() ? guide.text : "{}");
      break;
    }
    case Guide::Kind::kRegex: answer = lark_regex(guide.text); break;
    case Guide::Kind::kLark: answer = "%lark {\n" + guide.text + "\n}"; break;
  }
  const std::string thoughts = opened ? "thoughts GAP?" : "(\"<think>\" thoughts GAP?)?";
  return Guide{Guide::Kind::kLark, "start: " + thoughts + " answer\n" +
                                       "thoughts[lazy]: /(.|\\n)*<\\/think>/\n"
                                       "GAP: /\\n{1,2}/\n"
                                       "answer: " +
                                       answer + "\n"};
}

ReasoningDelta ReasoningParser::feed(std::string_view piece) {
  held_ += piece;
  return advance(false);
}

ReasoningDelta ReasoningParser::finish() { return advance(true); }

ReasoningDelta ReasoningParser::advance(bool last) {
  ReasoningDelta delta;
  if (state_ == State::kStart && !begin(last)) return delta;
  if (trim_) drop_leading_space(held_);
  if (state_ == State::kThoughts) think(last, delta);
  if (state_ == State::kContent) {
    if (trim_) drop_leading_space(held_);
    trim_ = trim_ && held_.empty();
    delta.content = std::exchange(held_, {});
  }
  return delta;
}

// Whether the answer begins with thoughts. False: not known yet.
bool ReasoningParser::begin(bool last) {
  const size_t skipped = std::min(held_.find_first_not_of(kSpace), held_.size());
  const std::string_view text = std::string_view(held_).substr(skipped);
  if (text.starts_with(kOpen)) {
    held_.erase(0, skipped + kOpen.size());
    state_ = State::kThoughts;
    trim_ = true;
    return true;
  }
  if (!last && kOpen.starts_with(text)) return false;
  state_ = State::kContent;
  return true;
}

void ReasoningParser::think(bool last, ReasoningDelta& delta) {
  trim_ = trim_ && held_.empty();
  const size_t close = held_.find(kClose);
  if (close != std::string::npos) {
    delta.reasoning = held_.substr(0, trimmed_size(std::string_view(held_).substr(0, close)));
    held_.erase(0, close + kClose.size());
    state_ = State::kContent;
    trim_ = true;
    return;
  }
  size_t certain = held_.size();
  if (!last) certain = trimmed_size(std::string_view(held_).substr(0, held_.size() - partial_marker(held_, kClose)));
  delta.reasoning = held_.substr(0, certain);
  held_.erase(0, certain);
}

}  // namespace eadem::server
