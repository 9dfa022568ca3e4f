#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/sha256.h"
#include "server/openai/tools.h"

namespace eadem::server {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kHermesOpen = "<tool_call>", kHermesClose = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>", kMistralTag = "[TOOL_CALLS]";
constexpr size_t kNone = std::string_view::npos;

size_t skip_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

// The first place where `marker`, or at the very end a beginning of it, stands.
size_t find_marker(std::string_view text, std::string_view marker) {
  const size_t whole = text.find(marker);
  if (whole != kNone) return whole;
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.ends_with(marker.substr(0, size))) return text.size() - size;
  }
  return text.size();
}

bool is_cut(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

// Where the value that begins at `at` ends, in a text that is valid JSON.
size_t end_of_value(std::string_view text, size_t at) {
  int depth = 0;
  bool quoted = false;
  const bool bare = text[at] != '{' && text[at] != '[' && text[at] != '"';
  if (bare) return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (!quoted && depth == 0) return i + 1;
  }
  return text.size();
}

// The elements of an array, or the names and values of an object, byte for byte; the text is valid JSON.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t at = skip_space(text, 1);
  while (at < text.size() && text[at] != ']' && text[at] != '}') {
    const size_t end = end_of_value(text, at);
    parts.push_back(text.substr(at, end - at));
    at = skip_space(text, end);
    if (at < text.size() && (text[at] == ',' || text[at] == ':')) at = skip_space(text, at + 1);
  }
  return parts;
}

// What a model wrote as arguments, as JSON text of an object; some write it into a string.
std::optional<std::string> arguments_of(std::string_view raw) {
  if (raw.starts_with('{')) return std::string(raw);
  const json value = json::parse(raw, nullptr, false);
  if (value.is_null()) return "{}";
  if (!value.is_string()) return std::nullopt;
  const std::string inner = value.get<std::string>();
  return json::parse(inner, nullptr, false).is_object() ? std::optional(inner) : std::nullopt;
}

std::string call_id(const std::string& salt, const ToolCall& call, ToolFormat format) {
  Sha256 hash;
  for (const std::string& part : {salt, std::to_string(call.index), call.name, call.arguments}) {
    const std::string framed = std::to_string(part.size()) + ":" + part;
    hash.update(std::as_bytes(std::span(framed)));
  }
  // Mistral's templates want nine letters and digits.
  return format == ToolFormat::kMistral ? hash.hex().substr(0, 9) : "call_" + hash.hex().substr(0, 24);
}

}  // namespace

ToolParser::ToolParser(ToolFormat format, const Tools& tools, std::string salt)
    : format_(format), parallel_(tools.parallel), salt_(std::move(salt)) {
  for (const Tool& tool : tools.tools) names_.push_back(tool.name);
}

ToolDelta ToolParser::feed(std::string_view piece) {
  ToolDelta delta;
  held_ += piece;
  advance(false, delta);
  return delta;
}

ToolDelta ToolParser::finish() {
  ToolDelta delta;
  advance(true, delta);
  if (!after_call_) delta.content += space_;
  space_.clear();
  return delta;
}

void ToolParser::advance(bool last, ToolDelta& delta) {
  while (!held_.empty()) {
    if (done()) return drop(held_.size());
    emit_text(find_start(), delta);
    if (held_.empty()) return;
    Match found = match(last);
    if (found.kind == Match::Kind::kUnknown) return;
    if (found.kind == Match::Kind::kText) {
      emit_text(found.size, delta);
    } else {
      emit_calls(std::move(found), delta);
    }
  }
}

// The first place of held_ where a call may begin; its size where none can, whatever follows.
size_t ToolParser::find_start() const {
  // Without a marker, a call stands at the beginning or after another one.
  const size_t first = skip_space(held_, 0);
  const char c = first < held_.size() ? held_[first] : '\0';
  switch (format_) {
    case ToolFormat::kHermes: return find_marker(held_, kHermesOpen);
    case ToolFormat::kLlama3:
      if (!any_text_ && (c == '{' || (c == ';' && after_call_))) return first;
      return find_marker(held_, kPythonTag);
    case ToolFormat::kMistral:
      if (!any_text_ && calls_ == 0 && c == '[') return first;
      return find_marker(held_, kMistralTag);
  }
  return held_.size();
}

ToolParser::Match ToolParser::match(bool last) {
  switch (format_) {
    case ToolFormat::kHermes: return match_hermes(last);
    case ToolFormat::kLlama3: return match_llama3(last);
    case ToolFormat::kMistral: break;
  }
  return match_mistral(last);
}

// The end of the bracketed value that begins at `begin`; npos where it is not whole. Goes on where it was.
size_t ToolParser::value_end(size_t begin) {
  for (read_ = std::max(read_, begin); end_ == kNone && read_ < held_.size(); ++read_) {
    const char c = held_[read_];
    if (quoted_) {
      quoted_ = escaped_ || c != '"';
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"') {
      quoted_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      end_ = read_ + 1;
    }
  }
  return end_;
}

ToolParser::Match ToolParser::match_hermes(bool last) {
  const Match text{Match::Kind::kText, std::min(held_.size(), kHermesOpen.size()), {}};
  if (held_.size() < kHermesOpen.size()) return last ? text : Match{};
  const size_t begin = skip_space(held_, kHermesOpen.size());
  if (begin == held_.size()) return last ? text : Match{};
  if (held_[begin] != '{') return text;
  const size_t end = value_end(begin);
  if (end == kNone) return last ? text : Match{};
  auto call = call_of(std::string_view(held_).substr(begin, end - begin));
  if (!call) return text;
  // A closing tag belongs to the call; some models forget it.
  const size_t close = skip_space(held_, end);
  const std::string_view rest = std::string_view(held_).substr(close);
  if (!last && is_cut(rest, kHermesClose)) return {};
  return {Match::Kind::kCalls, rest.starts_with(kHermesClose) ? close + kHermesClose.size() : end, {*std::move(call)}};
}

ToolParser::Match ToolParser::match_llama3(bool last) {
  size_t begin = 0;
  if (held_[0] == ';') {
    begin = skip_space(held_, 1);
  } else if (held_[0] == '<') {
    if (held_.size() < kPythonTag.size()) return last ? Match{Match::Kind::kText, held_.size(), {}} : Match{};
    begin = skip_space(held_, kPythonTag.size());
  }
  const Match text{Match::Kind::kText, held_[0] == '<' ? kPythonTag.size() : 1, {}};
  if (begin == held_.size()) return last ? text : Match{};
  if (held_[begin] != '{') return text;
  const size_t end = value_end(begin);
  if (end == kNone) return last ? text : Match{};
  auto call = call_of(std::string_view(held_).substr(begin, end - begin));
  return call ? Match{Match::Kind::kCalls, end, {*std::move(call)}} : text;
}

ToolParser::Match ToolParser::match_mistral(bool last) {
  if (held_.starts_with(kMistralTag)) return match_list(skip_space(held_, kMistralTag.size()), last);
  if (!last && is_cut(held_, kMistralTag)) return {};
  if (any_text_ || calls_ > 0) return {Match::Kind::kText, 1, {}};
  return match_list(0, last);
}

// A list of calls; if it is none, the text that goes before it, or its bracket, is text.
ToolParser::Match ToolParser::match_list(size_t begin, bool last) {
  const Match text{Match::Kind::kText, begin == 0 ? 1 : std::min(kMistralTag.size(), held_.size()), {}};
  if (begin == held_.size()) return last ? text : Match{};
  if (held_[begin] != '[') return text;
  const size_t end = value_end(begin);
  if (end == kNone) return last ? text : Match{};
  const std::string_view list = std::string_view(held_).substr(begin, end - begin);
  Match found{Match::Kind::kCalls, end, {}};
  if (!json::accept(list)) return text;
  for (const std::string_view element : parts_of(list)) {
    auto call = call_of(element);
    if (!call) return text;
    found.calls.push_back(*std::move(call));
  }
  return found.calls.empty() ? text : found;
}

// Without index and id. None where it is no call of a tool that was offered.
std::optional<ToolCall> ToolParser::call_of(std::string_view object) const {
  if (!object.starts_with('{') || !json::accept(object)) return std::nullopt;
  ToolCall call;
  std::optional<std::string> arguments = "{}";
  const std::vector<std::string_view> parts = parts_of(object);
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    const std::string key = json::parse(parts[i]).get<std::string>();
    if (key == "name") {
      const json name = json::parse(parts[i + 1]);
      call.name = name.is_string() ? name.get<std::string>() : std::string();
    }
    if (key == "arguments" || key == "parameters") arguments = arguments_of(parts[i + 1]);
  }
  const bool offered = std::find(names_.begin(), names_.end(), call.name) != names_.end();
  if (!offered || !arguments) return std::nullopt;
  call.arguments = *std::move(arguments);
  return call;
}

void ToolParser::emit_text(size_t size, ToolDelta& delta) {
  if (size == 0) return;
  std::string text = std::exchange(space_, {}) + held_.substr(0, size);
  drop(size);
  const size_t end = text.find_last_not_of(kSpace) + 1;
  space_ = text.substr(end);
  text.resize(end);
  if (text.empty()) return;
  if (after_call_) text.erase(0, text.find_first_not_of(kSpace));
  delta.content += text;
  any_text_ = true;
  after_call_ = false;
}

void ToolParser::emit_calls(Match match, ToolDelta& delta) {
  drop(match.size);
  space_.clear();
  after_call_ = true;
  for (ToolCall& call : match.calls) {
    if (done()) return;
    call.index = calls_++;
    call.id = call_id(salt_, call, format_);
    delta.calls.push_back(std::move(call));
  }
}

void ToolParser::drop(size_t size) {
  held_.erase(0, size);
  read_ = 0;
  end_ = kNone;
  depth_ = 0;
  quoted_ = escaped_ = false;
}

}  // namespace eadem::server
