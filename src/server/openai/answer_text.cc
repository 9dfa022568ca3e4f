#include "server/openai/answer_text.h"

#include <utility>

#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

void append(AnswerText::Delta& delta, ToolDelta more) {
  delta.content += more.content;
  for (ToolCall& call : more.calls) delta.calls.push_back(std::move(call));
}

}  // namespace

AnswerText::Delta AnswerText::feed(std::string_view piece) {
  Delta delta;
  std::string content(piece);
  if (reasoning_) {
    ReasoningDelta split = reasoning_->feed(piece);
    delta.reasoning = std::move(split.reasoning);
    content = std::move(split.content);
  }
  if (tools_) {
    append(delta, tools_->feed(content));
  } else {
    delta.content = std::move(content);
  }
  return delta;
}

AnswerText::Delta AnswerText::finish() {
  Delta delta;
  std::string content;
  if (reasoning_) {
    ReasoningDelta split = reasoning_->finish();
    delta.reasoning = std::move(split.reasoning);
    content = std::move(split.content);
  }
  if (tools_) {
    append(delta, tools_->feed(content));
    append(delta, tools_->finish());
  } else {
    delta.content = std::move(content);
  }
  return delta;
}

std::string message_members(const AnswerText::Delta& delta, bool indexed) {
  std::string out;
  const auto member = [&](std::string_view name) {
    if (!out.empty()) out += ',';
    out += '"';
    out += name;
    out += "\":";
  };
  if (!delta.reasoning.empty()) {
    member("reasoning_content");
    append_string(out, delta.reasoning);
  }
  if (!delta.content.empty()) {
    member("content");
    append_string(out, delta.content);
  }
  if (delta.calls.empty()) return out;
  member("tool_calls");
  for (size_t i = 0; i < delta.calls.size(); ++i) {
    const ToolCall& call = delta.calls[i];
    out += i == 0 ? "[{" : ",{";
    if (indexed) out += "\"index\":" + std::to_string(call.index) + ",";
    out += "\"id\":";
    append_string(out, call.id);
    out += ",\"type\":\"function\",\"function\":{\"name\":";
    append_string(out, call.name);
    out += ",\"arguments\":";
    append_string(out, call.arguments);
    out += "}}";
  }
  out += ']';
  return out;
}

}  // namespace eadem::server
