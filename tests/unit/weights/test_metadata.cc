// Metadata: JSON flattened, typed getters, and messages that name the key and the file.
#include <gtest/gtest.h>

#include <limits>

#include "expect_error.h"
#include "weights/json_metadata.h"
#include "weights/message.h"
#include "weights/metadata.h"

namespace eadem::weights {
namespace {

using test::expect_error;

Metadata read(std::string_view text) {
  auto result = read_json_metadata(text, "config.json");
  EXPECT_TRUE(result.ok()) << result.error().message;
  return std::move(result).value();
}

TEST(Metadata, FlattensNestedObjects) {
  const Metadata m = read(R"({"hidden_size": 576, "rope_scaling": {"factor": 8.0, "inner": {"x": true}}, "name": "a",
                              "none": null, "empty": {}})");
  EXPECT_EQ(m.get<int64_t>("hidden_size").value(), 576);
  EXPECT_EQ(m.get<double>("hidden_size").value(), 576.0);
  EXPECT_EQ(m.get<double>("rope_scaling.factor").value(), 8.0);
  EXPECT_TRUE(m.get<bool>("rope_scaling.inner.x").value());
  EXPECT_EQ(m.get<std::string>("name").value(), "a");
  EXPECT_FALSE(m.has("none"));
  EXPECT_TRUE(m.has_group("rope_scaling"));
  EXPECT_TRUE(m.has_group("rope_scaling.inner"));
  EXPECT_FALSE(m.has_group("rope"));
  EXPECT_FALSE(m.has_group("name"));
}

TEST(Metadata, ArraysAndScalarsInTheirPlace) {
  const Metadata m =
      read(R"({"eos": 2, "eos_list": [2, 3], "floats": [1, 2.5], "flags": [true, false], "strings": ["a", "", "bc"],
                              "empty": [], "mixed": [1, "a", {"k": [4]}], "nested": [[1, 2], [3]]})");
  EXPECT_EQ(m.get<std::vector<int64_t>>("eos").value(), (std::vector<int64_t>{2}));
  EXPECT_EQ(m.get<std::vector<int64_t>>("eos_list").value(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(m.get<std::vector<double>>("eos_list").value(), (std::vector<double>{2, 3}));
  EXPECT_EQ(m.get<std::vector<double>>("floats").value(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(m.get<std::vector<bool>>("flags").value(), (std::vector<bool>{true, false}));
  const StringList* strings = m.strings("strings");
  ASSERT_NE(strings, nullptr);
  ASSERT_EQ(strings->size(), 3u);
  EXPECT_EQ((*strings)[0], "a");
  EXPECT_EQ((*strings)[1], "");
  EXPECT_EQ((*strings)[2], "bc");
  EXPECT_TRUE(m.get<StringList>("empty").value().empty());
  EXPECT_TRUE(m.get<std::vector<double>>("empty").value().empty());
  EXPECT_EQ(m.get<int64_t>("mixed.0").value(), 1);
  EXPECT_EQ(m.get<std::vector<int64_t>>("mixed.2.k").value(), (std::vector<int64_t>{4}));
  EXPECT_EQ(m.get<std::vector<int64_t>>("nested.0").value(), (std::vector<int64_t>{1, 2}));
}

TEST(Metadata, IntegersKeepTheirRange) {
  const Metadata m =
      read(R"({"low": -9223372036854775808, "high": 9223372036854775807, "beyond": 18446744073709551615})");
  EXPECT_EQ(m.get<int64_t>("low").value(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(m.get<int64_t>("high").value(), std::numeric_limits<int64_t>::max());
  expect_error(m.get<int64_t>("beyond"), {"config.json", "'beyond'", "an integer", "beyond 63 bits"});
}

TEST(Metadata, MessagesNameKeyAndFile) {
  const Metadata m = read(R"({"a": "text", "f": 1.5, "list": [1, 2]})");
  expect_error(m.get<int64_t>("missing"), {"config.json", "'missing'", "missing"});
  expect_error(m.get<int64_t>("a"), {"config.json", "'a'", "an integer", "a string"});
  expect_error(m.get<int64_t>("f"), {"'f'", "an integer", "a number"});
  expect_error(m.get<bool>("list"), {"'list'", "true or false", "an array of integers"});
  EXPECT_EQ(m.get_or<int64_t>("missing", 7).value(), 7);
  expect_error(m.get_or<int64_t>("a", 7), {"'a'"});
}

TEST(Metadata, BrokenJsonIsOneClearError) {
  const struct {
    std::string text;
    std::vector<std::string_view> words;
  } table[] = {
      {"", {"config.json", "not valid JSON"}},
      {"{", {"not valid JSON", "at byte"}},
      {"[1]", {"no object"}},
      {"3", {"no object"}},
      {R"({"a": 1} trailing)", {"not valid JSON"}},
      {R"({"a": 1, "a": 2})", {"'a'", "twice"}},
      {R"({"o": {"x": 1, "x": 2}})", {"'x'", "twice"}},
      {R"({"a.b": 1, "a": {"b": 2}})", {"'a.b'", "twice", "flattened"}},
      {R"({"a": NaN})", {"not valid JSON"}},
      {R"({"a": 1e999})", {"number"}},
      {"{\"a\": \"\xff\"}", {"not valid JSON"}},
      {"{\"a\": \"\n\"}", {"not valid JSON"}},
      {R"({"a\nb": 1, "a\nb": 2})", {"twice", "a\\x0ab"}},
      {"{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}", {"nested deeper"}},
      {std::string(100000, '['), {"nested deeper"}},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(row.text.substr(0, 60));
    expect_error(read_json_metadata(row.text, "config.json"), row.words);
  }
}

TEST(Message, NamesStayOneShortLine) {
  EXPECT_EQ(quote("a\nb\x7f\xc3"), "'a\\x0ab\\x7f\\xc3'");
  EXPECT_EQ(quote(std::string(100, 'x')), "'" + std::string(80, 'x') + "...'");
}

}  // namespace
}  // namespace eadem::weights
