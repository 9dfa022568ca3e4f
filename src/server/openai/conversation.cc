// Messages of a chat request: checked, and brought to what templates expect (contents as text, arguments as objects).
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/request_json.h"
#include "server/openai/ask.h"

namespace eadem::server {
namespace {

using json = nlohmann::ordered_json;

// Parts of type text, joined by line feeds as vLLM does for templates that take text.
Result<json> flatten(const json& parts, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const json& part = parts[i];
    const std::string at = where + "[" + std::to_string(i) + "]";
    if (!part.is_object()) return must_be(at, "an object with a type");
    const auto type = part.find("type");
    if (type == part.end() || *type != "text") {
      return Error{"field '" + at + ".type' must be \"text\": this model reads text alone"};
    }
    const auto content = part.find("text");
    if (content == part.end() || !content->is_string()) return must_be(at + ".text", "a string");
    for (const auto& [name, value] : part.items()) {
      if (name != "type" && name != "text" && !value.is_null()) {
        return Error{"field '" + at + "' may hold type and text alone"};
      }
    }
    if (i > 0) text += '\n';
    text += content->get<std::string>();
  }
  return json(std::move(text));
}

Result<void> check_content(json& message, const std::string& where) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    const bool calls = message.contains("tool_calls");
    if (message["role"] == "assistant" && (calls || message.contains("reasoning_content"))) {
      message["content"] = "";
      return {};
    }
    return must_be(where + ".content", "a string or an array of text parts");
  }
  if (content->is_string()) return {};
  if (!content->is_array()) return must_be(where + ".content", "a string or an array of text parts");
  EADEM_ASSIGN_OR_RETURN(*content, flatten(*content, where + ".content"));
  return {};
}

// Clients send arguments back as the text they got; templates write them out as an object.
Result<void> check_calls(json& calls, const std::string& where) {
  if (!calls.is_array()) return must_be(where, "an array of calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string at = where + "[" + std::to_string(i) + "]";
    json& call = calls[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      return must_be(at, "an object with a function");
    }
    if (call.contains("type") && call["type"] != "function") return must_be(at + ".type", "'function'");
    if (call.contains("id") && !call["id"].is_string()) return must_be(at + ".id", "a string");
    json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) return must_be(at + ".function.name", "a string");
    if (!function.contains("arguments") || function["arguments"].is_null()) function["arguments"] = "";
    json& arguments = function["arguments"];
    if (arguments.is_object()) continue;
    if (!arguments.is_string()) return must_be(at + ".function.arguments", "a JSON object, written as a string");
    const auto text = arguments.get<std::string>();
    if (text.empty()) {
      arguments = json::object();
      continue;
    }
    auto parsed = api::parse_line(text);
    if (!parsed.ok() || !parsed.value().is_object()) {
      return must_be(at + ".function.arguments", "a JSON object, written as a string");
    }
    arguments = std::move(parsed).value();
  }
  return {};
}

// What clients write out although it says nothing: null, or an empty list.
bool says_nothing(const json& value) { return value.is_null() || (value.is_array() && value.empty()); }

Result<void> check_message(json& message, const std::string& where) {
  if (!message.is_object()) return must_be(where, "an object with role and content");
  if (!message.contains("role") || !message["role"].is_string()) return must_be(where + ".role", "a string");
  for (auto member = message.begin(); member != message.end();) {
    const std::string& name = member.key();
    const bool text = name == "name" || name == "tool_call_id" || name == "reasoning_content";
    if (name == "role" || name == "content") {
      ++member;
    } else if (says_nothing(*member)) {
      member = message.erase(member);
    } else if (text) {
      if (!member->is_string()) return must_be(where + "." + name, "a string");
      ++member;
    } else if (name == "tool_calls") {
      EADEM_RETURN_IF_ERROR(check_calls(*member, where + ".tool_calls"));
      ++member;
    } else {
      return Error{"field '" + where +
                   "' may hold role, content, name, tool_calls, tool_call_id and reasoning_content alone"};
    }
  }
  return check_content(message, where);
}

}  // namespace

Result<ChatPrompt> parse_conversation(const json& own) {
  const auto found = own.find("messages");
  if (found == own.end()) return Error{"field 'messages' is missing"};
  if (!found->is_array() || found->empty()) return must_be("messages", "an array of messages; not empty");
  json messages = *found;
  for (size_t i = 0; i < messages.size(); ++i) {
    EADEM_RETURN_IF_ERROR(check_message(messages[i], "messages[" + std::to_string(i) + "]"));
  }
  ChatPrompt prompt;
  EADEM_RETURN_IF_ERROR(read_bool(own, "add_generation_prompt", prompt.generation_prompt));
  EADEM_RETURN_IF_ERROR(read_bool(own, "continue_final_message", prompt.continue_final));
  if (prompt.continue_final && prompt.generation_prompt) {
    return Error{"field 'continue_final_message' needs \"add_generation_prompt\": false"};
  }
  if (prompt.continue_final) prompt.final_message = messages.back()["content"].get<std::string>();
  json kwargs = json::object();
  if (const auto given = own.find("chat_template_kwargs"); given != own.end()) {
    if (!given->is_object()) return must_be("chat_template_kwargs", "an object");
    for (const char* reserved : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
      if (given->contains(reserved)) {
        return Error{"field 'chat_template_kwargs' must not hold " + std::string(reserved)};
      }
    }
    kwargs = *given;
  }
  if (!prompt.generation_prompt) kwargs["add_generation_prompt"] = false;
  if (!kwargs.empty()) prompt.kwargs = kwargs.dump();
  prompt.messages = messages.dump();
  return prompt;
}

}  // namespace eadem::server
