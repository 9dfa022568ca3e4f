// The text of a chat answer taken apart as it comes: thoughts, content, calls of tools.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/reasoning.h"
#include "server/openai/tools.h"

namespace eadem::server {

class AnswerText {
 public:
  struct Delta {
    std::string reasoning, content;
    std::vector<ToolCall> calls;
    bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  };

  AnswerText(std::optional<ReasoningParser> reasoning, std::optional<ToolParser> tools)
      : reasoning_(std::move(reasoning)), tools_(std::move(tools)) {}

  Delta feed(std::string_view piece);
  // The rest, once.
  Delta finish();
  bool called() const { return tools_ && tools_->calls() > 0; }

 private:
  std::optional<ReasoningParser> reasoning_;
  std::optional<ToolParser> tools_;
};

// Members of a message or a delta: "reasoning_content", "content", "tool_calls", without braces; empty: none. indexed:
// each call with its index, as a stream has it.
std::string message_members(const AnswerText::Delta& delta, bool indexed);

}  // namespace eadem::server
