// Tools: what a request may say, the guides they become, and the calls found in answers, however these are cut.
#include "server/openai/tools.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTools = R"([
  {"type":"function","function":{"name":"weather","description":"of a city",
   "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
  {"type":"function","function":{"name":"now"}}])";

Result<Tools> parse(const std::string& more = "") {
  return parse_tools(ordered_json::parse(std::string("{\"tools\":") + kTools + more + "}"));
}

// Calls as "index name arguments" lines, then the content.
std::string show(const std::vector<ToolCall>& calls, const std::string& content) {
  std::string text;
  for (const ToolCall& call : calls) {
    text += std::to_string(call.index) + " " + call.id + " " + call.name + " " + call.arguments + "\n";
  }
  return text + "[" + content + "]";
}

std::string run(ToolFormat format, const Tools& tools, const std::vector<std::string_view>& pieces) {
  ToolParser parser(format, tools, "salt");
  std::string content;
  std::vector<ToolCall> calls;
  const auto add = [&](ToolDelta delta) {
    content += delta.content;
    for (ToolCall& call : delta.calls) calls.push_back(std::move(call));
  };
  for (const std::string_view piece : pieces) add(parser.feed(piece));
  add(parser.finish());
  EXPECT_EQ(parser.calls(), static_cast<int>(calls.size()));
  return show(calls, content);
}

// Without ids, after checking that every cut gives the same.
std::string found(ToolFormat format, std::string_view answer, const std::string& more = "") {
  const Tools tools = parse(more).value();
  const std::string whole = run(format, tools, {answer});
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < answer.size(); ++i) {
    bytes.push_back(answer.substr(i, 1));
    for (size_t j = i; j <= answer.size(); j += 1 + (j - i) / 7) {
      EXPECT_EQ(run(format, tools, {answer.substr(0, i), answer.substr(i, j - i), answer.substr(j)}), whole)
          << answer << " cut at " << i << " and " << j;
    }
  }
  EXPECT_EQ(run(format, tools, bytes), whole) << answer;
  std::string without_ids;
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.find('\n', at), whole.size() - 1) + 1;
    std::string line = whole.substr(at, end - at);
    const size_t id = line.starts_with('[') ? std::string::npos : line.find(' ');
    if (id != std::string::npos) line.erase(id, line.find(' ', id + 1) - id);
    without_ids += line;
    at = end;
  }
  return without_ids;
}

TEST(Tools, Hermes) {
  constexpr auto kFormat = ToolFormat::kHermes;
  EXPECT_EQ(found(kFormat, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"),
            "0 weather {\"city\": \"Rome\"}\n[]");
  EXPECT_EQ(found(kFormat,
                  "Let me see. \n<tool_call>{\"arguments\":{\"city\":\"</tool_call> \\\"}\"},\"name\":\"weather\"}"
                  "</tool_call>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call>\n"),
            "0 weather {\"city\":\"</tool_call> \\\"}\"}\n1 now {}\n[Let me see.]");
  EXPECT_EQ(found(kFormat, " no call <tool_cal> here \n"), "[ no call <tool_cal> here \n]");
  // The closing tag may be missing; what follows a call is content.
  EXPECT_EQ(found(kFormat, "<tool_call>{\"name\":\"now\",\"arguments\":null} and more"), "0 now {}\n[and more]");
  // What only looks like a call.
  for (const char* broken : {"<tool_call>{\"name\":\"now\"", "<tool_call>{\"name\":\"unknown\"}</tool_call>",
                             "<tool_call>now()</tool_call>", "<tool_call>{\"name\":\"now\",}</tool_call>", "<tool_ca",
                             "<tool_call>{\"name\":\"now\",\"arguments\":[1]}</tool_call>"}) {
    EXPECT_EQ(found(kFormat, broken), "[" + std::string(broken) + "]");
  }
  EXPECT_EQ(found(kFormat, "<tool_call>x</tool_call><tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\":1}\"}"),
            "0 now {\"a\":1}\n[<tool_call>x</tool_call>]");
}

TEST(Tools, Llama3) {
  constexpr auto kFormat = ToolFormat::kLlama3;
  EXPECT_EQ(found(kFormat, " {\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}"),
            "0 weather {\"city\": \"Oslo\"}\n[]");
  EXPECT_EQ(found(kFormat, "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\"}\n"),
            "0 now {}\n1 now {}\n[]");
  EXPECT_EQ(found(kFormat, "Well: <|python_tag|>{\"name\": \"now\"}"), "0 now {}\n[Well:]");
  for (const char* text : {"{\"a\": 1}", "x {\"name\": \"now\"}", "{", "<|python_tag|>print(1)", "a ; b", "{}; {}"}) {
    EXPECT_EQ(found(kFormat, text), "[" + std::string(text) + "]");
  }
  EXPECT_EQ(found(kFormat, "{\"name\": \"now\"}; then"), "0 now {}\n[; then]");
}

TEST(Tools, Mistral) {
  constexpr auto kFormat = ToolFormat::kMistral;
  const std::string list =
      R"([{"name": "weather", "arguments": {"city": "[Bonn]"}}, {"name": "now", "arguments": {}}])";
  const std::string calls = "0 weather {\"city\": \"[Bonn]\"}\n1 now {}\n";
  EXPECT_EQ(found(kFormat, "[TOOL_CALLS]" + list), calls + "[]");
  EXPECT_EQ(found(kFormat, "\n" + list), calls + "[]");
  EXPECT_EQ(found(kFormat, "I call [TOOL_CALLS] " + list + " done"), calls + "[I calldone]");
  for (const char* text : {"[1, 2]", "[", "[]", "[T", "see [TOOL_CA", "[TOOL_CALLS]", "[TOOL_CALLS] none",
                           "[{\"name\": \"now\"}, 7]", "a [{\"name\": \"now\"}]"}) {
    EXPECT_EQ(found(kFormat, text), "[" + std::string(text) + "]");
  }
}

TEST(Tools, AtMostOneCallWhereTheyMayNotBeParallel) {
  const std::string call = "<tool_call>{\"name\":\"now\"}</tool_call>";
  EXPECT_EQ(found(ToolFormat::kHermes, "a " + call + call + " b", ",\"parallel_tool_calls\":false"), "0 now {}\n[a]");
  EXPECT_EQ(found(ToolFormat::kMistral, R"([{"name": "now"}, {"name": "now"}])", ",\"parallel_tool_calls\":false"),
            "0 now {}\n[]");
}

TEST(Tools, IdsAreFunctionsOfTheAnswer) {
  const Tools tools = parse().value();
  const auto ids = [&](ToolFormat format, const char* salt, std::string_view answer) {
    ToolParser parser(format, tools, salt);
    std::vector<std::string> all;
    for (const ToolCall& call : parser.feed(answer).calls) all.push_back(call.id);
    for (const ToolCall& call : parser.finish().calls) all.push_back(call.id);
    return all;
  };
  const char* two = R"({"name": "now"}; {"name": "now"} )";
  const auto first = ids(ToolFormat::kLlama3, "a", two);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first, ids(ToolFormat::kLlama3, "a", two));
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first, ids(ToolFormat::kLlama3, "b", two));
  EXPECT_EQ(first[0].size(), 29u);
  EXPECT_EQ(ids(ToolFormat::kMistral, "a", R"([{"name": "now"}])")[0].size(), 9u);
}

TEST(Tools, WhatARequestMaySay) {
  const Tools all = parse().value();
  EXPECT_EQ(all.choice, Tools::Choice::kAuto);
  EXPECT_EQ(all.tools.size(), 2u);
  EXPECT_TRUE(all.parallel);
  EXPECT_EQ(all.template_json, ordered_json::parse(kTools).dump());
  const Tools none = parse(",\"tool_choice\":\"none\"").value();
  EXPECT_FALSE(none.enabled());
  EXPECT_EQ(none.template_json, "");
  EXPECT_EQ(parse(",\"tool_choice\":\"required\"").value().choice, Tools::Choice::kRequired);
  const Tools named = parse(R"(,"tool_choice":{"type":"function","function":{"name":"now"}})").value();
  EXPECT_EQ(named.choice, Tools::Choice::kRequired);
  ASSERT_EQ(named.tools.size(), 1u);
  EXPECT_EQ(named.tools[0].name, "now");
  EXPECT_EQ(named.template_json, all.template_json);
  EXPECT_FALSE(parse_tools(ordered_json::parse(R"({"tool_choice":"auto"})")).value().enabled());
}

TEST(Tools, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"tools":3})", "tools must be"},
      {R"({"tools":[3]})", "tools[0].type must be"},
      {R"({"tools":[{"type":"function","function":{}}]})", "tools[0].function.name must be"},
      {R"({"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]})", "tools[0].function.parameters"},
      {R"({"tools":[{"type":"function","function":{"name":"a","x":1}}]})", "unknown member \"x\""},
      {R"({"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]})",
       "tools[1].function.name is that of another"},
      {R"({"tool_choice":"required"})", "there are no tools"},
      {R"({"tool_choice":"some"})", "tool_choice must be"},
      {R"({"tool_choice":{"type":"function","function":{"name":"a"}}})", "none of the tools"},
      {R"({"tool_choice":{"type":"function"}})", "tool_choice must be"},
      {R"({"parallel_tool_calls":1})", "parallel_tool_calls must be"},
  };
  for (const auto& [body, message] : cases) {
    const auto parsed = parse_tools(ordered_json::parse(body));
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_NE(parsed.error().message.find(message), std::string::npos) << parsed.error().message;
  }
}

TEST(Tools, FormatsByTemplateAndByName) {
  EXPECT_EQ(detect_tool_format("... <tool_call></tool_call> ..."), ToolFormat::kHermes);
  EXPECT_EQ(detect_tool_format("{{ '[TOOL_CALLS][' }}"), ToolFormat::kMistral);
  EXPECT_EQ(detect_tool_format("{{ '<|python_tag|>' }}"), ToolFormat::kLlama3);
  EXPECT_EQ(detect_tool_format("<tool_call><function=x>"), std::nullopt);
  EXPECT_EQ(detect_tool_format("[TOOL_CALLS]x[ARGS]"), std::nullopt);
  EXPECT_EQ(detect_tool_format("{{ messages }}"), std::nullopt);
  EXPECT_EQ(find_tool_format("llama3_json"), ToolFormat::kLlama3);
  EXPECT_EQ(find_tool_format("other"), std::nullopt);
}

TEST(Tools, AGuideWhereACallIsDemanded) {
  EXPECT_EQ(tool_guide(parse().value(), ToolFormat::kHermes), std::nullopt);
  const auto guide = tool_guide(parse(",\"tool_choice\":\"required\"").value(), ToolFormat::kHermes);
  ASSERT_TRUE(guide.has_value());
  EXPECT_EQ(guide->kind, Guide::Kind::kLark);
  EXPECT_NE(guide->text.find(R"("<tool_call>\n{\"name\": \"weather\", \"arguments\": " arguments_0)"),
            std::string::npos)
      << guide->text;
}

}  // namespace
}  // namespace eadem::server
