#include "audit/diff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/model_files.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

std::string path_of(const std::string& name) {
  static const test::TempDirectory folder;
  return (folder.path() / name).string();
}

std::string write(const std::string& name, const std::vector<ordered_json>& lines) {
  std::ofstream file(path_of(name), std::ios::trunc);
  for (const ordered_json& line : lines) file << line.dump() << "\n";
  return path_of(name);
}

// As `eadem generate` writes it.
ordered_json answer(int prompt, int seed, const std::string& numerics = "int8-v1", const std::string& print = "f1") {
  return {{"line", prompt},
          {"id", "q" + std::to_string(prompt)},
          {"prompt_token_ids", {1, prompt}},
          {"token_ids", {prompt % 7, (prompt + seed) % 5, 2}},
          {"text", "t" + std::to_string(prompt + seed)},
          {"logprobs", {-0.5, -1.5 - 0.01 * prompt, -0.25}},
          {"finish_reason", "length"},
          {"seed", seed},
          {"numerics", numerics},
          {"fingerprint", print},
          {"sampling", {{"max_tokens", 3}, {"seed", seed}, {"n", 1}}}};
}

std::vector<ordered_json> answers(int prompts, int seeds) {
  std::vector<ordered_json> lines;
  for (int prompt = 0; prompt < prompts; ++prompt) {
    for (int seed = 0; seed < seeds; ++seed) lines.push_back(answer(prompt, seed));
  }
  return lines;
}

ordered_json diff(const std::string& a, const std::string& b, Level level = Level::kBits) {
  DiffOptions options;
  options.a = a;
  options.b = b;
  options.level = level;
  auto document = compare_runs(options);
  EXPECT_TRUE(document.ok()) << (document.ok() ? "" : document.error().message);
  return document.ok() ? document.value() : ordered_json();
}

std::string error_of(const std::string& a, const std::string& b) {
  DiffOptions options;
  options.a = a;
  options.b = b;
  const auto document = compare_runs(options);
  return document.ok() ? "" : document.error().message;
}

const ordered_json& level(const ordered_json& document, const std::string& name) {
  for (const ordered_json& one : document["levels"]) {
    if (one["level"] == name) return one;
  }
  static const ordered_json none;
  return none;
}

TEST(Diff, EqualRunsHoldInBitsWhateverTheirOrder) {
  std::vector<ordered_json> lines = answers(4, 2), reversed(lines.rbegin(), lines.rend());
  const ordered_json document = diff(write("a", lines), write("b", reversed));
  EXPECT_EQ(document["verdict"], "holds");
  EXPECT_EQ(document["strongest_level"], "bits");
  EXPECT_EQ(document["matching"]["pairs"], 8);
  EXPECT_EQ(level(document, "distribution")["implied_by"], "bits");
  EXPECT_FALSE(document["identity"]["bug"].get<bool>());
}

TEST(Diff, GreedyAnswersArePartnersWhateverTheirSeeds) {
  for (const double temperature : {0.0, 0.7}) {
    std::vector<ordered_json> a = answers(4, 1), b = answers(4, 1);
    for (ordered_json& line : a) line["sampling"]["temperature"] = temperature;
    for (ordered_json& line : b) {
      line["sampling"]["temperature"] = temperature;
      line["seed"] = 1000 + line["seed"].get<int>();
    }
    const ordered_json document = diff(write("a", a), write("b", b));
    EXPECT_EQ(document["matching"]["pairs"], temperature == 0.0 ? 4 : 0);
    EXPECT_EQ(document["verdict"], temperature == 0.0 ? "holds" : "undecided");
  }
}

TEST(Diff, OneBitUnderEqualIdentityIsABug) {
  std::vector<ordered_json> lines = answers(4, 2);
  lines[5]["logprobs"][0] = double{std::nextafterf(-0.5f, 0.0f)};
  const ordered_json document = diff(write("a", answers(4, 2)), write("b", lines));
  EXPECT_EQ(document["verdict"], "differs");
  EXPECT_EQ(document["strongest_level"], "tokens");
  EXPECT_TRUE(document["identity"]["bug"].get<bool>());
  const ordered_json& first = level(document, "bits")["first_difference"];
  EXPECT_EQ(first["id"], "q2");
  EXPECT_EQ(first["seed"], 1);
  EXPECT_EQ(first["field"], "logprobs");
  EXPECT_EQ(level(document, "bits")["different"], 1);
}

TEST(Diff, AnotherIdentityIsNamedAndNoBug) {
  std::vector<ordered_json> lines;
  for (int prompt = 0; prompt < 4; ++prompt) {
    lines.push_back(answer(prompt, 0, "fma32-v1", "f2"));
    lines.back()["logprobs"][0] = -0.75;
  }
  const ordered_json document = diff(write("a", answers(4, 1)), write("b", lines));
  EXPECT_FALSE(document["identity"]["bug"].get<bool>());
  EXPECT_FALSE(document["identity"]["equal"].get<bool>());
  EXPECT_EQ(document["identity"]["differing"][0]["field"], "numerics");
}

TEST(Diff, AboutFilesTellWhichFieldsDiffer) {
  const ordered_json about = {{"fingerprint", "f1"},
                              {"numerics", "int8-v1"},
                              {"covers", {{"weights", "w"}, {"numerics", "int8-v1"}}},
                              {"deployment", {{"threads", 2}, {"isa", "avx512"}}}};
  ordered_json other = about;
  other["deployment"]["threads"] = 8;
  std::vector<ordered_json> lines = answers(2, 1);
  lines[0]["token_ids"][0] = 99;
  DiffOptions options;
  options.a = write("a", answers(2, 1));
  options.b = write("b", lines);
  options.about_a = write("about-a", {about});
  options.about_b = write("about-b", {other});
  ordered_json identity = compare_runs(options).value()["identity"];
  EXPECT_TRUE(identity["bug"].get<bool>());
  EXPECT_EQ(identity["deployment_differing"][0]["field"], "threads");
  EXPECT_NE(identity["statement"].get<std::string>().find("threads"), std::string::npos);
  other["fingerprint"] = "f9";
  options.about_b = write("about-b", {other});
  EXPECT_FALSE(compare_runs(options).ok());  // not these answers' fingerprint
}

TEST(Diff, NothingIsClaimedThatWasNotCompared) {
  std::vector<ordered_json> silent = answers(4, 1), fewer = answers(3, 1);
  for (ordered_json& line : silent) line.erase("logprobs");
  const ordered_json tokens = diff(write("a", silent), write("b", silent));
  EXPECT_EQ(level(tokens, "bits")["verdict"], "undecided");
  EXPECT_EQ(tokens["strongest_level"], "tokens");
  const ordered_json part = diff(write("a", answers(4, 1)), write("b", fewer));
  EXPECT_EQ(level(part, "bits")["verdict"], "undecided");
  EXPECT_EQ(part["matching"]["only_a"], 1);
}

TEST(Diff, AChangedPartOfTheAnswersIsFoundInTheirDistribution) {
  std::vector<ordered_json> a = answers(12, 20), b, same;
  for (int prompt = 0; prompt < 12; ++prompt) {
    for (int seed = 100; seed < 120; ++seed) {
      b.push_back(answer(prompt, seed));
      same.push_back(b.back());
      if (seed % 2 == 0) b.back()["token_ids"][1] = 6;
    }
  }
  for (auto* lines : {&a, &b, &same}) {
    for (ordered_json& line : *lines) line.erase("logprobs");
  }
  const ordered_json document = diff(write("a", a), write("b", b), Level::kDistribution);
  EXPECT_EQ(document["verdict"], "differs");
  EXPECT_EQ(level(document, "distribution")["tests"][0]["name"], "two_sample");
  EXPECT_FALSE(level(document, "distribution")["prompts"].empty());
  EXPECT_EQ(level(document, "bits")["verdict"], "undecided");  // other seeds
  EXPECT_EQ(diff(write("a", a), write("b", same), Level::kDistribution)["verdict"], "holds");
}

TEST(Diff, MetricsDecideQuality) {
  std::vector<ordered_json> a, b;
  for (int item = 0; item < 400; ++item) {
    const ordered_json line = {{"id", "i" + std::to_string(item)}, {"correct", item % 3 != 0}};
    a.push_back(line);
    b.push_back(line);
    if (item % 10 == 1) b.back()["correct"] = false;
  }
  EXPECT_EQ(diff(write("a", a), write("b", a), Level::kQuality)["verdict"], "holds");
  const ordered_json document = diff(write("a", a), write("b", b), Level::kQuality);
  EXPECT_EQ(document["verdict"], "differs");
  const ordered_json& metric = level(document, "quality")["metrics"][0];
  EXPECT_EQ(metric["kind"], "proportion");
  EXPECT_LT(metric["high"], 0.0);
}

TEST(Diff, RepliesOfAServerAreAnswers) {
  const auto reply = [](const std::string& text, double logprob) -> ordered_json {
    return {{"id", "cmpl-" + text},
            {"choices",
             {{{"index", 0},
               {"text", text},
               {"token_ids", {1, 2}},
               {"logprobs", {{"tokens", {"a", "b"}}, {"token_logprobs", {logprob, -9999.0}}}},
               {"finish_reason", "stop"}}}},
            {"eadem",
             {{"fingerprint", "f1"},
              {"numerics", "int8-v1"},
              {"answer_seeds", {7}},
              {"prompt_hash", "h"},
              {"sampling", {{"max_tokens", 2}}}}}};
  };
  EXPECT_EQ(diff(write("a", {reply("x", -0.5)}), write("b", {reply("x", -0.5)}))["strongest_level"], "bits");
  EXPECT_EQ(diff(write("a", {reply("x", -0.5)}), write("b", {reply("x", -0.25)}))["strongest_level"], "tokens");
  const ordered_json batch = {{"custom_id", "r1"}, {"response", {{"body", reply("x", -0.5)}}}};
  EXPECT_EQ(diff(write("a", {batch}), write("b", {reply("x", -0.5)}))["strongest_level"], "bits");
}

TEST(Diff, OtherFilesAreRefusedWithTheLine) {
  const std::string good = write("a", answers(2, 1));
  EXPECT_NE(error_of(good, path_of("none")).find("cannot read"), std::string::npos);
  std::ofstream(path_of("torn")) << answer(1, 1).dump() << "\n{\"token_ids\": [1";
  EXPECT_NE(error_of(good, path_of("torn")).find("line 2"), std::string::npos);
  EXPECT_NE(error_of(good, write("b", {{{"token_ids", {1}}}})).find("line 1"), std::string::npos);
  EXPECT_NE(error_of(good, write("b", {ordered_json::array({1})})).find("not a JSON object"), std::string::npos);
  EXPECT_NE(
      error_of(good, write("b", {{{"answer", "r/0"}, {"position", 0}, {"layer", 0}, {"op", "n"}, {"sha256", "a"}}}))
          .find("trace"),
      std::string::npos);
  // Hostile types: an error or a verdict, never an end of the program.
  for (const char* field : {"id", "seed", "token_ids", "logprobs", "sampling", "prompt_token_ids", "text"}) {
    for (const ordered_json& value : {ordered_json(1.5), ordered_json("x"), ordered_json::array({nullptr, "y", 1e300}),
                                      ordered_json::object(), ordered_json()}) {
      ordered_json line = answer(1, 1);
      line[field] = value;
      const std::string path = write("b", {line});
      DiffOptions options;
      options.a = path;
      options.b = good;
      static_cast<void>(compare_runs(options).ok());
    }
  }
}

}  // namespace
}  // namespace eadem::audit
