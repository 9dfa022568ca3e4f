// Tools of a chat request: what the client offers, the guide that makes the model call them, and the calls found in its
// answer. Pure text: nothing of HTTP.
//
//   auto tools = parse_tools(body);                        // fields tools, tool_choice, parallel_tool_calls
//   auto format = detect_tool_format(chat_template);       // or find_tool_format(flag); none: refuse the tools
//   render_chat(messages, tools.template_json, kwargs);
//   request.sampling.guide = tool_guide(tools, format);    // none where tool_choice leaves the text free
//   if (tools.enabled()) {
//     ToolParser parser(format, tools, salt);
//     ToolDelta delta = parser.feed(piece);                // as often as there are pieces, cut anywhere
//     ToolDelta rest = parser.finish();                    // once
//     finish_reason = parser.calls() > 0 ? "tool_calls" : ...;
//   }
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "eadem/request.h"

namespace eadem::server {

// How a family of models writes a call.
enum class ToolFormat : uint8_t {
  kHermes,   // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen, SmolLM
  kLlama3,   // {"name": ..., "parameters": {...}}, several with ; between them, perhaps after <|python_tag|>
  kMistral,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]
};

// By the name of a flag: hermes, llama3_json, mistral. None: unknown.
std::optional<ToolFormat> find_tool_format(std::string_view name);
// By the markers in a chat template's text. None: it has none of a known format.
std::optional<ToolFormat> detect_tool_format(std::string_view chat_template);

struct Tool {
  std::string name;
  std::string parameters;  // JSON schema of its arguments
};

struct Tools {
  enum class Choice : uint8_t { kNone, kAuto, kRequired };

  std::vector<Tool> tools;    // that may be called: with a named function, that one alone
  std::string template_json;  // what the chat template gets as `tools`; empty: nothing
  Choice choice = Choice::kNone;
  bool parallel = true;  // several calls in one answer

  bool enabled() const { return choice != Choice::kNone; }
};

// From a chat request's body: tools, tool_choice (none, auto, required, or {"type": "function", "function": {"name"}}),
// parallel_tool_calls. The template gets the tools with their fields in the client's order. Without tools, or with
// tool_choice none, nothing is enabled and the template gets none. Errors name the field.
Result<Tools> parse_tools(const nlohmann::ordered_json& body);

// What holds the answer to calls of these tools, for tool_choice required or a named function; none where the text is
// free. It is compiled like any guide: what a schema says and the guide cannot express is refused there.
std::optional<Guide> tool_guide(const Tools& tools, ToolFormat format);

struct ToolCall {
  int index = 0;          // 0, 1, ... within the answer
  std::string id;         // a digest of salt, index, name and arguments: the same answer has the same ids
  std::string name;       // of one of the tools
  std::string arguments;  // JSON, byte for byte as the model wrote it
};

struct ToolDelta {
  std::string content;
  std::vector<ToolCall> calls;  // each whole

  bool empty() const { return content.empty() && calls.empty(); }
};

// Finds calls in a streamed answer. What only looks like a call (broken JSON, a function that was not offered) stays
// content; white space beside a call is dropped. All deltas joined are the same for every way to cut the answer.
class ToolParser {
 public:
  // salt: what tells this answer from others (prompt hash, seed, index), for the ids.
  ToolParser(ToolFormat format, const Tools& tools, std::string salt);

  ToolDelta feed(std::string_view piece);
  ToolDelta finish();
  int calls() const { return calls_; }
  // Nothing that follows can add to the answer (parallel_tool_calls is false and there was a call).
  bool done() const { return !parallel_ && calls_ > 0; }

 private:
  // What stands at the beginning of held_.
  struct Match {
    enum class Kind : uint8_t { kUnknown, kText, kCalls };  // unknown: more text will tell
    Kind kind = Kind::kUnknown;
    size_t size = 0;  // bytes of it
    std::vector<ToolCall> calls;
  };

  void advance(bool last, ToolDelta& delta);
  size_t find_start() const;
  Match match(bool last);
  Match match_hermes(bool last);
  Match match_llama3(bool last);
  Match match_mistral(bool last);
  Match match_list(size_t begin, bool last);
  size_t value_end(size_t begin);
  std::optional<ToolCall> call_of(std::string_view object) const;
  void emit_text(size_t size, ToolDelta& delta);
  void emit_calls(Match match, ToolDelta& delta);
  void drop(size_t size);

  ToolFormat format_;
  std::vector<std::string> names_;
  bool parallel_;
  std::string salt_;
  int calls_ = 0;
  bool any_text_ = false;    // content that is no white space was emitted
  bool after_call_ = false;  // nothing but white space since the last call
  std::string space_;        // white space not emitted: dropped where a call follows or went before
  std::string held_;         // not decided yet
  // How far the JSON value of held_ was read, so that no byte is read twice.
  size_t read_ = 0, end_ = std::string::npos;
  int depth_ = 0;
  bool quoted_ = false, escaped_ = false;
};

}  // namespace eadem::server
