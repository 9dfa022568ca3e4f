#include "server/openai/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/lark.h"

namespace eadem::server {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMostTools = 128, kLongestName = 256;

Error wrong(const std::string& field, std::string_view wanted) { return {field + " must be " + std::string(wanted)}; }

Result<void> check_members(const json& object, const std::string& field,
                           std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Error{field + " has an unknown member " + json(name).dump()};
    }
  }
  return {};
}

// The member, or null.
const json& member(const json& object, const char* name) {
  static const json kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

Result<Tool> parse_tool(const json& value, const std::string& field) {
  if (!value.is_object() || member(value, "type") != "function") return wrong(field + ".type", "\"function\"");
  EADEM_RETURN_IF_ERROR(check_members(value, field, {"type", "function"}));
  const json& function = member(value, "function");
  const std::string inner = field + ".function";
  if (!function.is_object()) return wrong(inner, "an object");
  EADEM_RETURN_IF_ERROR(check_members(function, inner, {"name", "description", "parameters", "strict"}));
  const json& name = member(function, "name");
  if (!name.is_string() || name.get_ref<const std::string&>().empty() ||
      name.get_ref<const std::string&>().size() > kLongestName) {
    return wrong(inner + ".name", "a string of 1 to " + std::to_string(kLongestName) + " bytes");
  }
  const json& description = member(function, "description");
  if (!description.is_null() && !description.is_string()) return wrong(inner + ".description", "a string");
  const json& strict = member(function, "strict");
  if (!strict.is_null() && !strict.is_boolean()) return wrong(inner + ".strict", "true or false");
  const json& parameters = member(function, "parameters");
  if (!parameters.is_null() && !parameters.is_object()) return wrong(inner + ".parameters", "a JSON schema");
  // Without parameters, a function takes none.
  return Tool{name.get<std::string>(),
              parameters.is_null() ? R"({"type":"object","additionalProperties":false})" : parameters.dump()};
}

Result<std::vector<Tool>> parse_list(const json& value) {
  std::vector<Tool> tools;
  if (value.is_null()) return tools;
  if (!value.is_array()) return wrong("tools", "an array of tools");
  if (value.size() > kMostTools) return wrong("tools", "at most " + std::to_string(kMostTools) + " tools");
  for (const json& element : value) {
    const std::string field = "tools[" + std::to_string(tools.size()) + "]";
    EADEM_ASSIGN_OR_RETURN(Tool tool, parse_tool(element, field));
    const bool twice = std::any_of(tools.begin(), tools.end(), [&](const Tool& t) { return t.name == tool.name; });
    if (twice) return Error{field + ".function.name is that of another tool; give each its own"};
    tools.push_back(std::move(tool));
  }
  return tools;
}

// Narrows `tools` to the one that is named.
Result<void> choose_named(const json& value, Tools& tools) {
  const std::string field = "tool_choice";
  const json& function = member(value, "function");
  const json& name = function.is_object() ? member(function, "name") : function;
  if (member(value, "type") != "function" || !name.is_string()) {
    return wrong(field, R"(none, auto, required, or {"type": "function", "function": {"name": ...}})");
  }
  EADEM_RETURN_IF_ERROR(check_members(value, field, {"type", "function"}));
  EADEM_RETURN_IF_ERROR(check_members(function, field + ".function", {"name"}));
  const auto named =
      std::find_if(tools.tools.begin(), tools.tools.end(), [&](const Tool& t) { return name == t.name; });
  if (named == tools.tools.end()) return Error{field + ".function.name is none of the tools"};
  tools.tools = {*named};
  tools.choice = Tools::Choice::kRequired;
  return {};
}

Result<void> choose(const json& value, Tools& tools) {
  tools.choice = tools.tools.empty() ? Tools::Choice::kNone : Tools::Choice::kAuto;
  if (value.is_null()) return {};
  if (value.is_object()) return choose_named(value, tools);
  if (value == "none") {
    tools.choice = Tools::Choice::kNone;
  } else if (value == "required") {
    if (tools.tools.empty()) return Error{"tool_choice is required, but there are no tools"};
    tools.choice = Tools::Choice::kRequired;
  } else if (value != "auto") {
    return wrong("tool_choice", R"(none, auto, required, or {"type": "function", "function": {"name": ...}})");
  }
  return {};
}

}  // namespace

std::optional<ToolFormat> find_tool_format(std::string_view name) {
  if (name == "hermes") return ToolFormat::kHermes;
  if (name == "llama3_json") return ToolFormat::kLlama3;
  if (name == "mistral") return ToolFormat::kMistral;
  return std::nullopt;
}

std::optional<ToolFormat> detect_tool_format(std::string_view chat_template) {
  const auto has = [&](std::string_view marker) { return chat_template.find(marker) != std::string_view::npos; };
  // <function=...> and [ARGS] are later formats under the same markers.
  if (has("<tool_call>")) return has("<function=") ? std::nullopt : std::optional(ToolFormat::kHermes);
  if (has("[TOOL_CALLS]")) return has("[ARGS]") ? std::nullopt : std::optional(ToolFormat::kMistral);
  if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\""))) return ToolFormat::kLlama3;
  return std::nullopt;
}

Result<Tools> parse_tools(const json& body) {
  Tools tools;
  EADEM_ASSIGN_OR_RETURN(tools.tools, parse_list(member(body, "tools")));
  EADEM_RETURN_IF_ERROR(choose(member(body, "tool_choice"), tools));
  const json& parallel = member(body, "parallel_tool_calls");
  if (!parallel.is_null() && !parallel.is_boolean()) return wrong("parallel_tool_calls", "true or false");
  tools.parallel = parallel.is_null() || parallel.get<bool>();
  if (tools.enabled()) tools.template_json = body["tools"].dump();
  return tools;
}

std::optional<Guide> tool_guide(const Tools& tools, ToolFormat format) {
  if (tools.choice != Tools::Choice::kRequired) return std::nullopt;
  std::string before, between, after, arguments = "arguments";
  switch (format) {
    case ToolFormat::kHermes: before = "<tool_call>\n", between = "\n", after = "\n</tool_call>"; break;
    case ToolFormat::kLlama3: between = "; ", arguments = "parameters"; break;
    case ToolFormat::kMistral: between = ", "; break;  // the marker is a special token: no text spells it
  }
  std::string grammar = "start: ";
  if (format == ToolFormat::kMistral) grammar += "\"[\" ";
  grammar += "call";
  if (tools.parallel) grammar += " (" + lark_text(between) + " call)*";
  if (format == ToolFormat::kMistral) grammar += " \"]\"";
  grammar += "\ncall:";
  for (size_t i = 0; i < tools.tools.size(); ++i) {
    const std::string head = before + "{\"name\": " + json(tools.tools[i].name).dump() + ", \"" + arguments + "\": ";
    grammar +=
        (i == 0 ? " " : " | ") + lark_text(head) + " arguments_" + std::to_string(i) + " " + lark_text("}" + after);
  }
  grammar += "\n";
  for (size_t i = 0; i < tools.tools.size(); ++i) {
    grammar += "arguments_" + std::to_string(i) + ": " + lark_schema(tools.tools[i].parameters) + "\n";
  }
  return Guide{Guide::Kind::kLark, grammar};
}

}  // namespace eadem::server
