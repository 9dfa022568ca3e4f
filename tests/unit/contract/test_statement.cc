#include <gtest/gtest.h>

#include "contract/statement.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

TEST(Statement, IsWhatTheSpecificationSays) {
  const std::string text = statement({{"model", {{"blake3", "00ff"}, {"sha256", "11"}}}}, "https://example.com/p/v1",
                                     {{"z", 1}, {"a", {1, 2}}});
  EXPECT_EQ(text, R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"model","digest":{"blake3":"00ff",)"
                  R"("sha256":"11"}}],"predicateType":"https://example.com/p/v1","predicate":{"z":1,"a":[1,2]}})");
  const auto read = parse_statement(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().subjects.size(), 1U);
  EXPECT_EQ(read.value().subjects[0].name, "model");
  EXPECT_EQ(read.value().subjects[0].digest.at("blake3"), "00ff");
  EXPECT_EQ(read.value().predicate_type, "https://example.com/p/v1");
  EXPECT_EQ(read.value().predicate.dump(), R"({"z":1,"a":[1,2]})");
}

TEST(Statement, RefusesWhatIsNone) {
  const ordered_json good =
      ordered_json::parse(statement({{"m", {{"blake3", "00"}}}}, "https://example.com/p", {{"a", 1}}));
  ASSERT_TRUE(parse_statement(good.dump()).ok());
  for (const auto& [field, kept] : good.items()) {
    for (const ordered_json& value : {ordered_json(), ordered_json(1), ordered_json::array(), ordered_json("x")}) {
      if (value.type() == kept.type() && field == "predicateType") continue;
      ordered_json changed = good;
      changed[field] = value;
      const auto read = parse_statement(changed.dump());
      ASSERT_FALSE(read.ok()) << changed.dump();
      EXPECT_EQ(read.error().message.find("no in-toto statement: "), 0U) << read.error().message;
    }
    ordered_json without = good;
    without.erase(field);
    EXPECT_FALSE(parse_statement(without.dump()).ok()) << field;
  }
  for (const char* subject :
       {"1", "{}", R"({"digest":{}})", R"({"digest":{"a":1}})", R"({"digest":{"a":"b"},"name":1})"}) {
    ordered_json changed = good;
    changed["subject"] = {ordered_json::parse(subject)};
    EXPECT_FALSE(parse_statement(changed.dump()).ok()) << subject;
  }
  ordered_json nameless = good;
  nameless["subject"][0].erase("name");
  nameless["comment"] = "of others";
  EXPECT_TRUE(parse_statement(nameless.dump()).ok());
}

}  // namespace
}  // namespace eadem::contract
