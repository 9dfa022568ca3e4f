// The declaration of the acceptance matrix: what is in the program can be read, and what is wrong in a file is refused
// with its line, its field and a remedy.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "audit/accept/matrix.h"
#include "audit/accept/ways.h"

namespace eadem::audit::accept {
namespace {

constexpr std::string_view kGood = R"(
[limits]
quick = { requests = 1 }
[[cell]]
name = "a.cell"
invariant = "It holds."
way = "at_once"
option = "max_batch"
values = [2, 3]
quick_values = [3]
with = { prefix_cache = true, isa = "auto" }
corpus = ["short"]
proof = ["max_sequences == value", "preemptions >= 2 * requests"]
in = ["quick", "full"]
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to replace: " + from);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const auto matrix = parse_matrix(text, "m.toml");
  return matrix.ok() ? "" : matrix.error().message;
}

TEST(AcceptMatrix, AFileIsReadWhole) {
  const auto matrix = parse_matrix(kGood, "m.toml");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  ASSERT_EQ(matrix.value().cells.size(), 1u);
  const CellSpec& spec = matrix.value().cells[0];
  EXPECT_EQ(spec.cell.name, "a.cell");
  EXPECT_EQ(spec.cell.variable, "max_batch");
  EXPECT_EQ(spec.values_of("full"), (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(spec.values_of("quick"), (std::vector<std::string>{"3"}));
  EXPECT_EQ(spec.settings.size(), 2u);
  EXPECT_EQ(spec.proof[1].factors, (std::vector<std::string>{"2", "requests"}));
  EXPECT_TRUE(spec.in("quick"));
  EXPECT_FALSE(spec.cell.control);
  EXPECT_EQ(matrix.value().limits.at("quick").requests, 1);
}

TEST(AcceptMatrix, WhatIsWrongIsNamedWithItsLine) {
  struct Case {
    const char *from, *to, *words;
  };
  const Case cases[] = {
      {"name = \"a.cell\"", "name = \"A Cell\"",
       "m.toml:5: cell 'A Cell', name: is 'A Cell'; it must be 1 to 64 of a-z"},
      {"name = \"a.cell\"", "name = 3", "name: must be a text in quotes"},
      {"invariant = \"It holds.\"", "", "invariant: is missing: every cell needs"},
      {"way = \"at_once\"", "way = \"by_magic\"", "m.toml:7: cell 'a.cell', way: 'by_magic' is no way"},
      {"way = \"at_once\"", "way = \"scored\"", "option: does not go with the way 'scored'"},
      {"option = \"max_batch\"", "", "option: is missing: the way 'at_once' needs"},
      {"option = \"max_batch\"", "option = \"speed\"", "'speed' is no option that a cell can set: use one of isa"},
      {"values = [2, 3]", "values = []", "values: must be an array that is not empty"},
      {"values = [2, 3]", "values = [2, 2]", "values: holds '2' twice"},
      {"values = [2, 3]", "values = [\"many\"]", "max_batch is 'many'; it must be an integer"},
      {"values = [2, 3]", "values = [2.5]", "holds something that is no text, integer, true or false"},
      {"quick_values = [3]", "slow_values = [3]", "m.toml:10: cell 'a.cell', slow_values: is unknown; known are"},
      {"prefix_cache = true", "prefix_cache = 1", "prefix_cache is '1'; it must be true or false"},
      {"prefix_cache = true", "kv_hash = true", "'kv_hash' is no option that a cell can set"},
      {"\"max_sequences == value\"", "\"max_sequences\"", "is no condition: write NAME COMPARISON TERM"},
      {"\"max_sequences == value\"", "\"luck >= 1\"", "'luck' in 'luck >= 1' is nothing that is counted: use one of"},
      {"\"max_sequences == value\"", "\"value >= 1\"", "'value' in 'value >= 1' is nothing that is counted"},
      {"\"max_sequences == value\"", "\"steps ~ 1\"", "is no condition"},
      {"in = [\"quick\", \"full\"]", "in = [\"slow\"]", "'slow' is no matrix: use quick, full"},
      {"in = [\"quick\", \"full\"]", "level = \"quality\"", "level: of a cell is bits or tokens"},
      {"in = [\"quick\", \"full\"]", "numerics = [\"fp8\"]", "'fp8' is no numerics: use mma16, fma32, int8"},
      {"in = [\"quick\", \"full\"]", "limits = { requests = 0 }", "requests: must be an integer in 1"},
      {"quick = { requests = 1 }", "quick = 3", "m.toml:3: limits, quick: must be a table"},
      {"quick = { requests = 1 }", "quack = { requests = 1 }", "quack: is unknown; known are full, quick"},
      {"[limits]", "[[limits]]", "limits: must be a table"},
      {"[limits]", "base = \"nothing\"\n[limits]", "base: 'nothing' is not in this program"},
      {"[[cell]]", "[cell]", "cell: must be written as [[cell]]"},
      {"invariant = \"It holds.\"", "invariant = \"It holds.", "m.toml:6: no TOML"},
  };
  for (const Case& one : cases) {
    const std::string message = error_of(replaced(std::string(kGood), one.from, one.to));
    EXPECT_NE(message.find(one.words), std::string::npos) << one.to << "\n got: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  const std::string twice = std::string(kGood) + std::string(kGood).substr(kGood.find("[[cell]]"));
  EXPECT_NE(error_of(twice).find("name: stands there twice"), std::string::npos);
  EXPECT_NE(error_of("").find("holds no cell"), std::string::npos);
  EXPECT_EQ(error_of(std::string(kGood)), "");
}

TEST(AcceptMatrix, AControlNamesCellsThatCanFail) {
  const std::string control = std::string(kGood) +
                              "[[cell]]\nname = \"control\"\ninvariant = \"x\"\nway = \"free\"\nvalues = [\"a.cell\"]\n"
                              "proof = [\"cells_asked >= 1\"]\n";
  EXPECT_NE(error_of(control).find("'a.cell' is a cell without `sensitive`"), std::string::npos);
  EXPECT_EQ(error_of(replaced(control, "corpus =", "sensitive = true\ncorpus =")), "");
  EXPECT_EQ(error_of(replaced(control, "corpus =", "sensitive = \"cpu\"\ncorpus =")), "");
  EXPECT_NE(error_of(replaced(control, "corpus =", "sensitive = \"gpu\"\ncorpus =")).find("true, false or \"cpu\""),
            std::string::npos);
  EXPECT_NE(error_of(replaced(control, "\"a.cell\"]", "\"b.cell\"]")).find("'b.cell' is no cell of this matrix"),
            std::string::npos);
}

TEST(AcceptMatrix, AFileMayStartFromTheDefault) {
  const auto matrix = parse_matrix(
      "base = \"default\"\n[limits]\nfull = { prompt_tokens = 40 }\n[[cell]]\nname = \"batch.size\"\nvalues = [7]\n",
      "mine.toml");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_EQ(matrix.value().find("batch.size")->cell.values, std::vector<std::string>{"7"});
  EXPECT_EQ(matrix.value().find("batch.size")->way, "at_once");
  EXPECT_EQ(matrix.value().limits.at("full").prompt_tokens, 40);
  EXPECT_GT(matrix.value().limits.at("full").requests, 0);
  EXPECT_GT(matrix.value().cells.size(), 25u);
}

TEST(AcceptMatrix, ThoseInTheProgramAreGoodAndLargeEnough) {
  ASSERT_TRUE(embedded_matrices().contains("default"));
  for (const auto& [name, text] : embedded_matrices()) {
    const auto matrix = parse_matrix(text, name + ".toml");
    ASSERT_TRUE(matrix.ok()) << matrix.error().message;
    std::set<std::string> ways;
    int full = 0, quick = 0, controls = 0;
    for (const CellSpec& spec : matrix.value().cells) {
      ways.insert(spec.way);
      full += spec.in("full"), quick += spec.in("quick"), controls += spec.cell.control;
    }
    EXPECT_GE(full, 25) << name;
    EXPECT_GE(quick, 15) << name;
    EXPECT_EQ(controls, 2) << name;
    EXPECT_EQ(ways.size(), all_ways().size()) << "a way that no cell of " << name << " takes is never tried";
  }
  EXPECT_EQ(matrix_of_model("smollm2-135m").name, "smollm2-135m");
  EXPECT_EQ(matrix_of_model("/models/smollm2-135m.gguf").name, "smollm2-135m");
  EXPECT_EQ(matrix_of_model("/models/another").name, "default");
}

TEST(AcceptMatrix, ConditionsCount) {
  const auto check = [](const char* text, const Facts& facts, const char* value) {
    return Condition::parse(text).value().check(facts, value)["held"].get<bool>();
  };
  const Facts facts = {{"preemptions", 6}, {"requests", 3}};
  EXPECT_TRUE(check("preemptions >= 2 * requests", facts, "x"));
  EXPECT_FALSE(check("preemptions >= 3 * requests", facts, "x"));
  EXPECT_TRUE(check("preemptions == value", facts, "6"));
  EXPECT_FALSE(check("preemptions == value", facts, "six"));
  EXPECT_FALSE(check("prefix_hits >= 1", facts, "x")) << "never counted";
  EXPECT_TRUE(check("preemptions == value * requests", facts, "2"));
  EXPECT_TRUE(check("preemptions != requests", facts, "x"));
  EXPECT_TRUE(check("requests < preemptions", facts, "x"));
}

}  // namespace
}  // namespace eadem::audit::accept
