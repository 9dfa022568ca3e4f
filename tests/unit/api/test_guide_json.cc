// The fields that ask for a guide: what each becomes, what is written back, and what is refused by name.
#include "api/guide_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/request_json.h"

namespace eadem::api {
namespace {

using nlohmann::ordered_json;

Result<SamplingParams> parse(const std::string& text) { return parse_sampling(ordered_json::parse(text), {}); }

TEST(GuideJson, EachFieldBecomesAGuide) {
  const Guide object{Guide::Kind::kJsonSchema, R"({"type":"object"})"};
  // Fields of a schema keep their order: answers have their properties in it.
  const Guide schema{Guide::Kind::kJsonSchema, R"({"type":"object","properties":{"b":{},"a":{}}})"};
  const Guide choice{Guide::Kind::kRegex, R"(a"b\.|é)"};
  const std::pair<std::string, Guide> cases[] = {
      {R"({"response_format":{"type":"json_object"}})", object},
      {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" + schema.text +
           "}}}",
       schema},
      {R"({"guided_json":)" + schema.text + "}", schema},
      {R"({"guided_json":)" + ordered_json(" " + schema.text).dump() + "}", schema},
      {R"({"guided_regex":"a+/"})", {Guide::Kind::kRegex, "a+/"}},
      {R"({"guided_grammar":"start: A"})", {Guide::Kind::kLark, "start: A"}},
      {R"({"guided_choice":["a\"b.","é"]})", choice},
      {R"({"structured_outputs":{"json":)" + schema.text + ",\"regex\":null}}", schema},
      {R"({"structured_outputs":{"json_object":true}})", object},
      {R"({"structured_outputs":{"choice":["a\"b.","é"]}})", choice},
      {R"({"structured_outputs":{"grammar":"start: A"}})", {Guide::Kind::kLark, "start: A"}},
      {R"({"guided_regex":"a","response_format":{"type":"text"},"guided_json":null})", {Guide::Kind::kRegex, "a"}},
  };
  for (const auto& [text, guide] : cases) {
    const auto sampling = parse(text);
    ASSERT_TRUE(sampling.ok()) << text << ": " << sampling.error().message;
    EXPECT_EQ(sampling.value().guide, guide) << text;
    const auto again = parse_sampling(to_json(sampling.value()), {});
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again.value().guide, guide) << text;
  }
  EXPECT_FALSE(parse(R"({"response_format":{"type":"text"}})").value().guide.has_value());
}

TEST(GuideJson, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"response_format":"json"})", "'response_format' must be"},
      {R"({"response_format":{"type":"xml"}})", "'response_format' must be"},
      {R"({"response_format":{"type":"json_schema"}})", "'response_format.json_schema' must be"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n"}}})", "json_schema.schema' must be"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"schema":{}}}})", "json_schema.name' must be"},
      {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","description":{},"schema":{}}}})",
       "json_schema.description' must be"},
      {R"({"response_format":{"type":"text","x":1}})", "unknown member"},
      {R"({"guided_json":3})", "'guided_json' must be"},
      {R"({"guided_json":"{"})", "'guided_json' must be"},
      {R"({"guided_regex":["a"]})", "'guided_regex' must be"},
      {R"({"guided_choice":[""]})", "'guided_choice' must be"},
      {R"({"structured_outputs":{}})", "'structured_outputs' must be"},
      {R"({"structured_outputs":{"json":{},"regex":"a"}})", "'structured_outputs' must be"},
      {R"({"structured_outputs":{"json_object":false}})", "'structured_outputs.json_object' must be"},
      {R"({"guided_regex":"a","guided_choice":["a"]})", "both say what the answer must match"},
  };
  for (const auto& [text, message] : cases) {
    const auto sampling = parse(text);
    ASSERT_FALSE(sampling.ok()) << text;
    EXPECT_NE(sampling.error().message.find(message), std::string::npos) << text << ": " << sampling.error().message;
  }
}

TEST(GuideJson, TheFieldThatAsks) {
  const auto field = [](const char* text) { return std::string(guide_field(ordered_json::parse(text))); };
  EXPECT_EQ(field(R"({"prompt":"a","guided_regex":"b"})"), "guided_regex");
  EXPECT_EQ(field(R"({"response_format":{"type":"json_object"}})"), "response_format");
  EXPECT_EQ(field(R"({"response_format":{"type":"text"},"guided_choice":["a"]})"), "guided_choice");
  EXPECT_EQ(field(R"({"response_format":null})"), "");
}

// Text of a schema that nobody parsed yet is written as text, and never makes writing recurse.
TEST(GuideJson, ASchemaThatIsNoJsonIsWrittenAsText) {
  for (std::string text : {std::string("{"), std::string(100000, '['), std::string(5000, '{')}) {
    ordered_json object;
    write_guide({Guide::Kind::kJsonSchema, text}, object);
    EXPECT_EQ(object["guided_json"], text);
  }
}

}  // namespace
}  // namespace eadem::api
