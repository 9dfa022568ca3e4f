#include "audit/trace_difference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/model_files.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

struct Row {
  std::string answer;
  int position, layer;
  std::string op, digest;
};

std::string write(const std::string& name, const std::vector<Row>& rows) {
  static const test::TempDirectory folder;
  const auto path = (folder.path() / name).string();
  std::ofstream file(path, std::ios::trunc);
  for (const Row& row : rows) {
    file << ordered_json{{"answer", row.answer}, {"position", row.position}, {"token", 1}, {"layer", row.layer},
                         {"op", row.op},         {"sha256", row.digest}}
         << "\n";
  }
  return path;
}

const std::vector<Row> kRows = {{"r/0", 0, 0, "norm", "aa"},
                                {"r/0", 0, 0, "linear", "ab"},
                                {"r/0", 1, 0, "norm", "ba"},
                                {"r/0", 1, 0, "linear", "bb"},
                                {"s/0", 0, 0, "norm", "ca"}};

TEST(TraceDifference, AnotherOrderOfLinesIsTheSameTrace) {
  std::vector<Row> rows(kRows.rbegin(), kRows.rend());
  EXPECT_TRUE(first_trace_difference(write("a", kRows), write("b", rows)).value().is_null());
}

TEST(TraceDifference, TheFirstOpOfTheLowestPositionIsNamed) {
  std::vector<Row> rows(kRows.rbegin(), kRows.rend());
  for (Row& row : rows) {
    if (row.answer == "s/0" || row.position == 1) row.digest += "0";
  }
  const ordered_json found = first_trace_difference(write("a", kRows), write("b", rows)).value();
  EXPECT_EQ(found["answer"], "r/0");
  EXPECT_EQ(found["position"], 1);
  EXPECT_EQ(found["op"], "norm");
  EXPECT_EQ(found["was"], "ba");
  EXPECT_EQ(found["is"], "ba0");
  EXPECT_EQ(found["lines_compared"], 5);
}

TEST(TraceDifference, ALineThatOneLacksIsADifference) {
  std::vector<Row> rows = kRows;
  rows.pop_back();
  const std::string a = write("a", kRows), b = write("b", rows);
  EXPECT_EQ(first_trace_difference(a, b).value()["is"], "none");
  EXPECT_EQ(first_trace_difference(b, a).value()["was"], "none");
}

TEST(TraceDifference, ARowComputedAnewMustRepeatItsDigests) {
  std::vector<Row> rows = kRows;
  rows.push_back(kRows[2]);
  const std::string same = write("a", rows);
  EXPECT_TRUE(first_trace_difference(same, write("b", kRows)).value().is_null());
  rows.back().digest = "b0";
  const std::string other = write("b", rows);
  const ordered_json found = first_trace_difference(same, other).value();
  EXPECT_EQ(found["within"], other);
  EXPECT_EQ(found["position"], 1);
}

TEST(TraceDifference, OtherFilesAreRefused) {
  const std::string trace = write("a", kRows);
  EXPECT_FALSE(first_trace_difference(trace, trace + ".none").ok());
  std::ofstream(trace + ".text") << "{\"token_ids\": [1]}\n";
  const auto found = first_trace_difference(trace, trace + ".text");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("line 1"), std::string::npos);
  std::ofstream(trace + ".empty") << "";
  EXPECT_FALSE(first_trace_difference(trace + ".empty", trace).ok());
}

}  // namespace
}  // namespace eadem::audit
