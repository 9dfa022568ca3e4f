// The acceptance matrix over a tiny model: all of it passes under each numerics; in free-order arithmetic it fails; a
// cell that did not take its path fails; a control that sees nothing fails the whole.
#include <gtest/gtest.h>

#include <atomic>

#include "audit/accept/runner.h"
#include "support/tiny_llama.h"
#include "support/tiny_text.h"

namespace eadem::audit::accept {
namespace {

class Accept : public ::testing::Test {
 protected:
  Accept() {
    eadem::testing::write_tiny_llama(folder_.path());
    eadem::testing::write_tiny_text(folder_.path());
    workshop_.engine.model = folder_.path().string();
    workshop_.engine.threads = 2;
    workshop_.engine.kv_memory = size_t{64} << 20;
    workshop_.program = EADEM_PROGRAM;
    workshop_.corpus = &default_corpus();
  }

  MatrixResult run(const Matrix& matrix, const Plan& plan) {
    auto result = run_matrix(matrix, plan, workshop_);
    if (!result.ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  }

  static std::string described(const MatrixResult& result) {
    std::string text;
    for (const CellResult& cell : result.cells) {
      if (cell.verdict != Verdict::kPass)
        text += "\n" + cell.numerics + " " + cell.cell.name + ": " + std::string(to_string(cell.verdict)) + ", " +
                cell.reason;
    }
    return text;
  }

  test::TempDirectory folder_;
  Workshop workshop_;
};

Matrix default_matrix() { return parse_matrix(embedded_matrices().at("default"), "default.toml").value(); }

class AcceptNumerics : public Accept, public ::testing::WithParamInterface<const char*> {};

TEST_P(AcceptNumerics, TheFullMatrixPasses) {
  const MatrixResult result = run(default_matrix(), {"full", {GetParam()}, {}});
  EXPECT_TRUE(passed(result)) << described(result);
  EXPECT_GE(tally(result).pass, 40) << described(result);
  // One kernel set alone, and mma16 without a free-order mode, are no fault.
  EXPECT_LE(tally(result).not_testable, 3) << described(result);
  for (const CellResult& cell : result.cells) {
    if (cell.verdict != Verdict::kPass) continue;
    EXPECT_GT(cell.compared, 0) << cell.cell.name;
    EXPECT_FALSE(cell.evidence["runs"].empty()) << cell.cell.name;
    EXPECT_EQ(cell.cell.control, !cell.first_difference.is_null()) << cell.cell.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AcceptNumerics, ::testing::Values("fma32", "int8", "mma16"),
                         [](const auto& one) { return std::string(one.param); });

TEST_F(Accept, InFreeOrderArithmeticItFails) {
  workshop_.engine.mode = "free";
  const MatrixResult result = run(default_matrix(), {"quick", {"fma32"}, {}});
  EXPECT_FALSE(passed(result));
  EXPECT_GE(tally(result).fail, 5) << described(result);
  for (const CellResult& cell : result.cells) {
    if (cell.verdict != Verdict::kFail || cell.cell.control || cell.equal == cell.compared) continue;
    EXPECT_EQ(cell.first_difference["value"].is_string(), true) << cell.cell.name;
    EXPECT_NE(cell.reason.find("answers differ"), std::string::npos) << cell.reason;
  }
}

constexpr const char* kOneCell = R"(
[[cell]]
name = "one"
invariant = "It holds."
way = "at_once"
option = "max_batch"
values = [VALUE]
corpus = ["short"]
proof = ["PROOF"]
sensitive = true
limits = { requests = 2, prompt_tokens = 8, answer_tokens = 3 }
)";

Matrix one_cell(const std::string& value, const std::string& proof, const std::string& more = "") {
  std::string text = kOneCell;
  text.replace(text.find("VALUE"), 5, value);
  text.replace(text.find("PROOF"), 5, proof);
  auto matrix = parse_matrix(text + more, "one.toml");
  if (!matrix.ok()) throw std::runtime_error(matrix.error().message);
  return std::move(matrix).value();
}

TEST_F(Accept, EqualAnswersOnAnotherPathAreAFailure) {
  const MatrixResult result = run(one_cell("2", "preemptions >= 1"), {});
  ASSERT_EQ(result.cells.size(), 1u);
  EXPECT_EQ(result.cells[0].verdict, Verdict::kFail);
  EXPECT_EQ(result.cells[0].equal, result.cells[0].compared);
  EXPECT_NE(result.cells[0].reason.find("path not reached: preemptions >= 1"), std::string::npos);
  EXPECT_TRUE(passed(run(one_cell("2", "max_sequences == 2"), {}))) << "the same with a condition that holds";
}

TEST_F(Accept, AControlThatSeesNothingFailsTheWhole) {
  const std::string control =
      "[[cell]]\nname = \"control\"\ninvariant = \"It is seen.\"\nway = \"free\"\nvalues = [\"one\"]\n"
      "proof = [\"cells_that_saw == cells_asked\"]\n";
  // One at a time, in the order of the corpus, is what the baseline does: nothing to be seen even in free order.
  const MatrixResult result = run(one_cell("1", "max_sequences == 1", control), {"full", {"fma32"}, {}});
  ASSERT_EQ(result.cells.size(), 2u);
  EXPECT_EQ(result.cells[0].verdict, Verdict::kPass) << result.cells[0].reason;
  EXPECT_EQ(result.cells[1].verdict, Verdict::kFail);
  EXPECT_NE(result.cells[1].reason.find("free-order arithmetic passed one"), std::string::npos)
      << result.cells[1].reason;
  EXPECT_FALSE(passed(result));
}

// Workers add nothing up on a device, so that their cell shows nothing there, and says so.
TEST_F(Accept, OnADeviceTheControlLeavesOutWhatIsSensitiveOnACpuAlone) {
  const std::string more =
      "[[cell]]\nname = \"workers\"\ninvariant = \"It holds.\"\nway = \"at_once\"\noption = \"threads\"\n"
      "values = [1, 3]\ncorpus = [\"short\"]\nproof = [\"threads == value\"]\nsensitive = \"cpu\"\n"
      "limits = { requests = 1, prompt_tokens = 8, answer_tokens = 2 }\n"
      "[[cell]]\nname = \"control\"\ninvariant = \"It is seen.\"\nway = \"free\"\nvalues = [\"one\", \"workers\"]\n"
      "proof = [\"cells_asked >= 1\"]\n";
  const Matrix matrix = one_cell("2", "max_sequences == 2", more);
  const auto asked = [&](const std::string& device) {
    workshop_.engine.device = device;
    workshop_.open = [](EngineOptions options) {  // where there is no device either
      options.device = "cpu";
      return Engine::open(options);
    };
    std::vector<std::string> names;
    MatrixResult result = run(matrix, {"full", {"fma32"}, {"control"}});
    for (const auto& one : result.cells[0].evidence["runs"]) names.push_back(one["value"].get<std::string>());
    return names;
  };
  EXPECT_EQ(asked("cpu"), (std::vector<std::string>{"one", "workers"}));
  EXPECT_EQ(asked("cuda"), (std::vector<std::string>{"one"}));
}

TEST_F(Accept, AProcessThatFailsFailsItsCell) {
  for (const char* program : {"/bin/false", "/nowhere/eadem"}) {
    workshop_.program = program;
    const MatrixResult result = run(default_matrix(), {"quick", {"fma32"}, {"process.restart", "server.http"}});
    EXPECT_EQ(tally(result).fail, 2) << described(result);
  }
  workshop_.program.clear();
  const MatrixResult result = run(default_matrix(), {"quick", {"fma32"}, {"process.restart"}});
  EXPECT_EQ(tally(result).not_testable, 1) << described(result);
  EXPECT_FALSE(passed(result)) << "nothing was tested";
}

TEST_F(Accept, AnInterruptLeavesCellsUndone) {
  std::atomic<int> asked = 0;
  workshop_.interrupted = [&] { return ++asked > 200; };
  const MatrixResult result = run(default_matrix(), {"quick", {"fma32"}, {}});
  EXPECT_TRUE(result.interrupted);
  EXPECT_GT(tally(result).not_run, 5);
  EXPECT_FALSE(passed(result));
}

TEST_F(Accept, WhatCannotBeOpenedIsAnError) {
  workshop_.engine.model = "/nowhere";
  EXPECT_FALSE(run_matrix(default_matrix(), {}, workshop_).ok());
  EXPECT_NE(run_matrix(default_matrix(), {"full", {"auto"}, {"no.cell"}}, workshop_).error().message.find("no.cell"),
            std::string::npos);
}

}  // namespace
}  // namespace eadem::audit::accept
