// RFC 8785: the order of keys, the escapes, and what is refused.
#include "contract/canonical_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

std::string canonical(const ordered_json& value) {
  const auto text = canonical_json(value);
  return text.ok() ? text.value() : "error: " + text.error().message;
}

TEST(CanonicalJson, KeysAreSortedByTheirUtf16UnitsAtEveryDepth) {
  EXPECT_EQ(canonical({{"b", 1}, {"a", {{"z", 2}, {"y", ordered_json::array({3, "x"})}}}}),
            R"({"a":{"y":[3,"x"],"z":2},"b":1})");
  // The example of RFC 8785, section 3.2.3: U+1F600 is two units that begin with D83D, so it stands before U+FB33,
  // though its bytes would not.
  const ordered_json example = {{"\u20ac", "Euro Sign"},
                                {"\r", "Carriage Return"},
                                {"\ufb33", "Hebrew Letter Dalet With Dagesh"},
                                {"1", "One"},
                                {"\U0001f600", "Emoji: Grinning Face"},
                                {"\u0080", "Control"},
                                {"\u00f6", "Latin Small Letter O With Diaeresis"}};
  EXPECT_EQ(canonical(example),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"\u00f6\":\"Latin Small Letter O With "
            "Diaeresis\",\"\u20ac\":\"Euro Sign\",\"\U0001f600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter "
            "Dalet With Dagesh\"}");
}

TEST(CanonicalJson, OnlyWhatMustBeEscapedIs) {
  EXPECT_EQ(canonical("\" \\ / \b\f\n\r\t \x01\x1f \x7f \u00e9 </script>"),
            "\"\\\" \\\\ / \\b\\f\\n\\r\\t \\u0001\\u001f \x7f \u00e9 </script>\"");
}

TEST(CanonicalJson, IntegersUpToWhatJavaScriptReadsBack) {
  EXPECT_EQ(canonical({int64_t{9007199254740991}, -9007199254740991, 0, true, nullptr}),
            "[9007199254740991,-9007199254740991,0,true,null]");
  EXPECT_NE(canonical({{"a", {1, uint64_t{1} << 53}}}).find("error: canonical JSON: /a/1"), std::string::npos);
  EXPECT_NE(canonical({int64_t{-1} << 53}).find("error"), std::string::npos);
}

TEST(CanonicalJson, FloatsAndBrokenTextAreRefusedByTheirPlace) {
  EXPECT_NE(canonical({{"a", {{"b", 1.0}}}}).find("error: canonical JSON: /a/b"), std::string::npos);
  for (const char* broken : {"\xff", "a\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_NE(canonical({{"a", broken}}).find("error: canonical JSON: /a"), std::string::npos);
    EXPECT_NE(canonical({{broken, "a"}}).find("error"), std::string::npos);
  }
  EXPECT_EQ(canonical("\xed\x9f\xbf\xf4\x8f\xbf\xbf"), "\"\xed\x9f\xbf\xf4\x8f\xbf\xbf\"") << "the control";
}

TEST(CanonicalJson, TheDigestIsBlake3) {
  EXPECT_EQ(canonical_digest(""), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

}  // namespace
}  // namespace eadem::contract
