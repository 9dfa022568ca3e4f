// What is written of a matrix's result: the verdict as a whole, JUnit XML, the in-toto statement and its seal.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "audit/acceptance_files.h"
#include "contract/dsse.h"
#include "contract/statement.h"
#include "support/model_files.h"

namespace eadem::audit {
namespace {

CellResult cell(const std::string& name, Verdict verdict, bool control = false) {
  CellResult result;
  result.cell.name = name;
  result.cell.invariant = "It <holds> & \"stays\".";
  result.cell.control = control;
  result.numerics = "fma32-v1";
  result.verdict = verdict;
  if (verdict != Verdict::kPass) result.reason = "because <of> it";
  return result;
}

MatrixResult matrix(std::vector<CellResult> cells) {
  MatrixResult result;
  result.model = "a model";
  result.identities["fma32-v1"] = std::string(64, 'a');
  result.corpus = {{"name", "default"}, {"digest", std::string(64, 'b')}};
  result.cells = std::move(cells);
  return result;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Acceptance, WhatPasses) {
  const CellResult good = cell("a", Verdict::kPass), control = cell("control", Verdict::kPass, true);
  EXPECT_TRUE(passed(matrix({good, control})));
  EXPECT_TRUE(passed(matrix({good, control, cell("b", Verdict::kNotTestable)})));
  EXPECT_TRUE(passed(matrix({good, control, cell("other control", Verdict::kNotTestable, true)})));
  EXPECT_FALSE(passed(matrix({control}))) << "a control alone accepts nothing";
  EXPECT_FALSE(passed(matrix({good, control, cell("b", Verdict::kFail)})));
  EXPECT_FALSE(passed(matrix({good, control, cell("b", Verdict::kNotRun)})));
  EXPECT_FALSE(passed(matrix({good, cell("control", Verdict::kNotTestable, true)}))) << "no control saw anything";
  EXPECT_FALSE(passed(matrix({good, cell("control", Verdict::kFail, true)})));
  CellResult elsewhere = good;
  elsewhere.numerics = "int8-v1";
  CellResult blind = cell("control", Verdict::kNotTestable, true);
  blind.numerics = "int8-v1";
  EXPECT_FALSE(passed(matrix({good, control, elsewhere, blind}))) << "each numerics needs a control of its own";
  MatrixResult interrupted = matrix({good, control});
  interrupted.interrupted = true;
  EXPECT_FALSE(passed(interrupted));
  EXPECT_FALSE(passed(matrix({})));
}

TEST(Acceptance, JunitNamesEveryCell) {
  const std::string xml = acceptance_junit(
      matrix({cell("a", Verdict::kPass), cell("b", Verdict::kFail), cell("c", Verdict::kNotTestable)}));
  EXPECT_NE(xml.find("tests=\"3\" failures=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("skipped=\"1\""), std::string::npos);
  EXPECT_NE(xml.find("<failure message=\"because &lt;of&gt; it\">It &lt;holds&gt; &amp; &quot;stays&quot;."),
            std::string::npos);
  EXPECT_EQ(xml.find("<holds>"), std::string::npos);
}

TEST(Acceptance, TheStatementSaysWhoseCellsPassed) {
  const auto statement =
      contract::parse_statement(acceptance_statement(matrix({cell("a", Verdict::kPass), cell("b", Verdict::kFail)})));
  ASSERT_TRUE(statement.ok()) << statement.error().message;
  EXPECT_EQ(statement.value().predicate_type, kTestResultType);
  EXPECT_EQ(statement.value().subjects.at(0).digest.at("blake3"), std::string(64, 'a'));
  const auto& predicate = statement.value().predicate;
  EXPECT_EQ(predicate["result"], "FAILED");
  EXPECT_EQ(predicate["passedTests"].dump(), "[\"fma32-v1/a\"]");
  EXPECT_EQ(predicate["failedTests"].dump(), "[\"fma32-v1/b\"]");
  EXPECT_EQ(predicate["eadem"]["kind"], "accept");
  EXPECT_EQ(predicate["eadem"]["cells"].size(), 2u);
}

TEST(Acceptance, FilesAreSealedWhereThereIsAKey) {
  test::TempDirectory folder;
  const auto key = contract::SigningKey::generate();
  const std::string out = (folder.path() / "deep" / "er").string();
  const MatrixResult result = matrix({cell("a", Verdict::kPass)});
  ASSERT_TRUE(write_acceptance(result, out, std::nullopt).ok());
  EXPECT_TRUE(contract::parse_statement(read(out + "/accept.json")).ok());
  ASSERT_TRUE(write_acceptance(result, out, key).ok());
  const auto payload = contract::unseal(read(out + "/accept.json"), contract::kStatementPayload, key.verifying_key());
  ASSERT_TRUE(payload.ok()) << payload.error().message;
  EXPECT_EQ(payload.value(), acceptance_statement(result));
  EXPECT_NE(read(out + "/accept.html").find("a model"), std::string::npos);
  EXPECT_FALSE(read(out + "/junit.xml").empty());
  EXPECT_FALSE(write_acceptance(result, "/proc/nowhere", std::nullopt).ok());
}

}  // namespace
}  // namespace eadem::audit
