#include "api/guide_json.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "api/request_json.h"
#include "weights/message.h"

namespace eadem::api {
namespace {

using json = nlohmann::ordered_json;
using Found = Result<std::optional<Guide>>;

constexpr std::string_view kFields[] = {"response_format", "guided_json",   "guided_regex",
                                        "guided_grammar",  "guided_choice", "structured_outputs"};

Error wrong(std::string_view field, std::string_view wanted) {
  return {"field '" + std::string(field) + "' must be " + std::string(wanted)};
}

// Only the members that `known` lists may be there.
Result<void> check_members(const json& object, std::string_view field, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Error{"field '" + std::string(field) + "' has an unknown member " + weights::quote(name)};
  }
  return {};
}

Guide any_object() { return {Guide::Kind::kJsonSchema, R"({"type":"object"})"}; }

// A schema as JSON, or as its text.
Found schema(const json& value, std::string_view field) {
  if (value.is_object() || value.is_boolean()) return std::optional(Guide{Guide::Kind::kJsonSchema, value.dump()});
  if (!value.is_string()) return wrong(field, "a JSON schema: an object, or its text");
  const auto parsed = parse_line(value.get_ref<const std::string&>());
  if (!parsed.ok()) return wrong(field, "a JSON schema, but its text is " + parsed.error().message);
  if (!parsed.value().is_object() && !parsed.value().is_boolean()) return wrong(field, "the text of a JSON object");
  return std::optional(Guide{Guide::Kind::kJsonSchema, parsed.value().dump()});
}

Found text(const json& value, std::string_view field, Guide::Kind kind, std::string_view wanted) {
  if (!value.is_string()) return wrong(field, wanted);
  return std::optional(Guide{kind, value.get<std::string>()});
}

// A regular expression rather than a grammar: thousands of choices are no more work than one.
Found choice(const json& value, std::string_view field) {
  constexpr std::string_view kWanted = "an array of strings, not empty";
  if (!value.is_array() || value.empty()) return wrong(field, kWanted);
  std::string regex;
  for (const json& option : value) {
    if (!option.is_string() || option.get_ref<const std::string&>().empty()) return wrong(field, kWanted);
    if (!regex.empty()) regex += '|';
    for (const char c : option.get_ref<const std::string&>()) {
      if (std::string_view("\\.+*?()|[]{}^$#&-~").find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return std::optional(Guide{Guide::Kind::kRegex, regex});
}

Found response_format(const json& value, std::string_view field) {
  constexpr std::string_view kWanted = "an object of type text, json_object or json_schema";
  if (!value.is_object() || !value.contains("type")) return wrong(field, kWanted);
  EADEM_RETURN_IF_ERROR(check_members(value, field, {"type", "json_schema"}));
  const json& type = value["type"];
  if (type == "text") return std::optional<Guide>();
  if (type == "json_object") return std::optional(any_object());
  if (type != "json_schema") return wrong(field, kWanted);
  const std::string inner = std::string(field) + ".json_schema";
  if (!value.contains("json_schema") || !value["json_schema"].is_object()) return wrong(inner, "an object");
  const json& described = value["json_schema"];
  EADEM_RETURN_IF_ERROR(check_members(described, inner, {"name", "description", "schema", "strict"}));
  if (!described.contains("name") || !described["name"].is_string()) return wrong(inner + ".name", "a string");
  if (described.contains("description") && !described["description"].is_string() &&
      !described["description"].is_null()) {
    return wrong(inner + ".description", "a string");
  }
  // Every answer follows its schema, whatever `strict` says.
  if (described.contains("strict") && !described["strict"].is_boolean() && !described["strict"].is_null()) {
    return wrong(inner + ".strict", "true or false");
  }
  if (!described.contains("schema") || !described["schema"].is_object()) return wrong(inner + ".schema", "an object");
  return schema(described["schema"], inner + ".schema");
}

Found structured_outputs(const json& value, std::string_view field) {
  constexpr std::string_view kWanted = "an object with one of json, json_object, regex, choice, grammar";
  if (!value.is_object()) return wrong(field, kWanted);
  EADEM_RETURN_IF_ERROR(check_members(value, field, {"json", "json_object", "regex", "choice", "grammar"}));
  Found found = std::optional<Guide>();
  int asked = 0;
  for (const auto& [name, member] : value.items()) {
    if (member.is_null()) continue;
    const std::string path = std::string(field) + "." + name;
    ++asked;
    if (name == "json") found = schema(member, path);
    if (name == "json_object") {
      if (member != true) return wrong(path, "true");
      found = std::optional(any_object());
    }
    if (name == "regex") found = text(member, path, Guide::Kind::kRegex, "a regular expression");
    if (name == "choice") found = choice(member, path);
    if (name == "grammar") found = text(member, path, Guide::Kind::kLark, "the text of a Lark grammar");
  }
  if (asked != 1) return wrong(field, kWanted);
  return found;
}

}  // namespace

bool is_guide_field(std::string_view field) {
  return std::find(std::begin(kFields), std::end(kFields), field) != std::end(kFields);
}

Found read_guide(const json& value, std::string_view field) {
  if (field == "response_format") return response_format(value, field);
  if (field == "guided_json") return schema(value, field);
  if (field == "guided_regex") return text(value, field, Guide::Kind::kRegex, "a regular expression");
  if (field == "guided_grammar") return text(value, field, Guide::Kind::kLark, "the text of a Lark grammar");
  if (field == "guided_choice") return choice(value, field);
  return structured_outputs(value, field);
}

std::string_view guide_field(const json& request) {
  for (const std::string_view field : kFields) {
    const auto member = request.find(std::string(field));
    if (member == request.end() || member->is_null()) continue;
    if (field == "response_format" && member->is_object() && member->value("type", json()) == "text") continue;
    return field;
  }
  return {};
}

void write_guide(const Guide& guide, json& object) {
  if (guide.kind == Guide::Kind::kRegex) {
    object["guided_regex"] = guide.text;
  } else if (guide.kind == Guide::Kind::kLark) {
    object["guided_grammar"] = guide.text;
  } else {
    const auto schema = parse_line(guide.text);
    object["guided_json"] = schema.ok() ? schema.value() : json(guide.text);
  }
}

}  // namespace eadem::api
