#include "audit/difference.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

ordered_json answer() {
  return {{"token_ids", {3, 1, 2}},
          {"logprobs", {-0.5, nullptr, -1.25}},
          {"top_logprobs", {{{{"token_id", 3}, {"logprob", -0.5}}}, ordered_json::array(), ordered_json::array()}},
          {"text", "abc"},
          {"finish_reason", "length"},
          {"usage", {{"cached_tokens", 0}}}};
}

TEST(Level, NamesAreReadBack) {
  for (const Level level : kAllLevels) EXPECT_EQ(parse_level(name_of(level)).value(), level);
  EXPECT_FALSE(parse_level("bitwise").ok());
}

TEST(Difference, EqualAnswersHaveNone) {
  ordered_json other = answer();
  other["usage"]["cached_tokens"] = 64;  // of the run, not of the answer
  EXPECT_TRUE(first_difference(answer(), other).is_null());
}

TEST(Difference, TheFirstTokenComesBeforeAnyLogprob) {
  ordered_json other = answer();
  other["token_ids"][1] = 9;
  other["logprobs"][0] = -0.75;
  const ordered_json found = first_difference(answer(), other);
  EXPECT_EQ(found["field"], "token_ids");
  EXPECT_EQ(found["position"], 1);
  EXPECT_EQ(describe_difference(found), "token_ids[1]: was 1, is 9");
}

TEST(Difference, OneBitOfALogprobIsFound) {
  ordered_json other = answer();
  other["logprobs"][2] = double{std::nextafterf(-1.25f, 0.0f)};
  const ordered_json found = first_difference(answer(), other);
  EXPECT_EQ(found["field"], "logprobs");
  EXPECT_EQ(found["position"], 2);
  EXPECT_EQ(found["was"]["bits"], "bfa00000");
  EXPECT_EQ(found["is"]["bits"], "bf9fffff");
  EXPECT_TRUE(first_difference(answer(), other, Level::kTokens).is_null());
}

TEST(Difference, MinusZeroIsNotZero) {
  ordered_json was = answer(), is = answer();
  was["logprobs"][0] = 0.0;
  is["logprobs"][0] = -0.0;
  EXPECT_EQ(first_difference(was, is)["field"], "logprobs");
}

TEST(Difference, AMaskedTokenEqualsAMaskedTokenAlone) {
  ordered_json other = answer();
  other["logprobs"][1] = -2.0;
  EXPECT_EQ(first_difference(answer(), other)["was"]["bits"], "null");
}

TEST(Difference, AnAnswerThatEndsEarlierHasNone) {
  ordered_json other = answer();
  other["token_ids"].erase(2);
  const ordered_json found = first_difference(answer(), other);
  EXPECT_EQ(found["position"], 2);
  EXPECT_EQ(found["is"]["value"], "none");
}

TEST(Difference, FieldsOfAnotherTypeDiffer) {
  ordered_json other = answer();
  other["token_ids"] = "3 1 2";
  EXPECT_EQ(first_difference(answer(), other)["field"], "token_ids");
  other = answer();
  other["finish_reason"] = "stop";
  EXPECT_EQ(first_difference(answer(), other, Level::kTokens)["field"], "finish_reason");
}

}  // namespace
}  // namespace eadem::audit
