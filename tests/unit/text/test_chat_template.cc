// Chat templates render byte for byte as Jinja2 renders them under transformers' settings (make_template_fixtures.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "fixtures_io.h"
#include "text/chat_template.h"

namespace eadem::text {
namespace {

using nlohmann::ordered_json;

std::string read_template(const std::string& name) {
  std::ifstream file(EADEM_SOURCE_DIR "/tests/unit/text/templates/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ChatTemplate parse(const std::string& source) {
  auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

ChatInput to_input(const ordered_json& context, const ordered_json& overrides) {
  ChatInput input;
  input.messages_json = context["messages"].dump();
  input.tools_json = context["tools"].dump();
  input.documents_json = context["documents"].dump();
  input.add_generation_prompt = context["add_generation_prompt"];
  input.bos_token = context["bos_token"];
  input.eos_token = context["eos_token"];
  if (!overrides.empty()) input.kwargs_json = overrides.dump();
  return input;
}

TEST(ChatTemplate, RendersAsTransformersDoes) {
  const ordered_json fixtures = ordered_json::parse(read_file("templates.json"));
  std::set<std::string> templates, outputs;
  size_t rendered = 0, refused = 0;
  for (const ordered_json& expected : fixtures["cases"]) {
    const std::string name = expected["template"];
    const std::string context = expected["context"];
    templates.insert(name);
    const ChatTemplate chat_template = parse(read_template(name));
    const RenderLimits limits = {.fuel = 1'000'000, .now = fixtures["now"].get<int64_t>()};
    const auto text = chat_template.render(to_input(fixtures["contexts"][context], expected["overrides"]), limits);
    if (expected.contains("error")) {
      ++refused;
      EXPECT_FALSE(text.ok()) << name << " " << context << ": Jinja2 raises " << expected["error"];
      const std::string error = expected["error"];
      if (error.starts_with("TemplateError: ") && !text.ok()) {
        EXPECT_NE(text.error().message.find(error.substr(15)), std::string::npos) << text.error().message;
      }
      continue;
    }
    ++rendered;
    if (!text.ok()) {
      ADD_FAILURE() << name << " " << context << ": " << text.error().message;
      continue;
    }
    EXPECT_EQ(text.value(), expected["output"].get<std::string>()) << name << " " << context;
    outputs.insert(text.value());
  }
  EXPECT_GE(templates.size(), 20u);
  EXPECT_GE(rendered, 150u);
  EXPECT_GE(refused, 20u);
  EXPECT_GE(outputs.size(), 100u);  // the cases differ, so a renderer that ignores its input fails
}

}  // namespace
}  // namespace eadem::text
