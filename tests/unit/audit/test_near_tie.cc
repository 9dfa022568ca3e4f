// A planted near tie is found, a clear margin is not; the counts are those of the positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "audit/near_tie_report.h"
#include "support/tiny_llama.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

SampledToken row(std::vector<TokenLogprob> top) { return {top[0].token, top[0].logprob, top}; }

TEST(NearTie, APositionIsAtRiskWhereItsMarginLiesWithinTheDifference) {
  const SampledToken contract = row({{7, -1.0f}, {9, -1.25f}, {3, -4.0f}});
  const SampledToken near[] = {row({{7, -1.0f}, {9, -1.125f}, {3, -4.0f}}),
                               row({{7, -1.0f}, {9, -1.375f}, {3, -4.0f}})};
  const NearTiePosition clear = measure_position(contract, near);
  EXPECT_EQ(clear.token, 7);
  EXPECT_EQ(clear.runner_up, 9);
  EXPECT_DOUBLE_EQ(clear.margin, 0.25);
  EXPECT_DOUBLE_EQ(clear.difference, 0.125);
  EXPECT_FALSE(clear.at_risk());
  EXPECT_TRUE(clear.flips.empty());
  const SampledToken far[] = {near[0], row({{7, -1.0f}, {9, -1.625f}, {3, -4.0f}})};
  EXPECT_TRUE(measure_position(contract, far).at_risk()) << "moved apart by more than the margin: it could be closer";
  EXPECT_TRUE(measure_position(contract, far).flips.empty());
}

TEST(NearTie, EveryFlipIsAtRisk) {
  const SampledToken contract = row({{7, -1.0f}, {9, -1.25f}, {3, -4.0f}});
  const SampledToken flip[] = {contract, row({{9, -1.0f}, {7, -1.0625f}, {3, -4.0f}})};
  const NearTiePosition second = measure_position(contract, flip);
  EXPECT_EQ(second.flips, std::vector<int>{1});
  EXPECT_DOUBLE_EQ(second.difference, 0.3125);
  EXPECT_TRUE(second.at_risk());
  const SampledToken third[] = {row({{3, -0.5f}, {7, -1.0f}, {9, -2.0f}})};
  EXPECT_TRUE(measure_position(contract, third).at_risk()) << "a third token took the place";
  SampledToken gone = row({{3, -0.5f}, {9, -0.75f}});  // the token is below all that is told
  EXPECT_DOUBLE_EQ(measure_position(contract, {&gone, 1}).difference, 0.5);
}

TEST(NearTie, AnExactTieThatNothingMovesIsNoRisk) {
  const SampledToken tie = row({{7, -1.0f}, {9, -1.0f}});
  EXPECT_FALSE(measure_position(tie, {&tie, 1}).at_risk());
  const SampledToken other[] = {row({{9, -1.0f}, {7, -1.0000001f}})};
  EXPECT_TRUE(measure_position(tie, other).at_risk());
}

// The tensors of the tiny model, where they lie in its file.
class Weights {
 public:
  explicit Weights(std::filesystem::path file) : file_(std::move(file)) {
    std::ifstream in(file_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof size);
    header_ = ordered_json::parse(bytes_.substr(8, size));
    data_ = 8 + size;
  }
  ~Weights() { test::write_file(file_, bytes_); }

  // bf16 element (row, column)
  char* at(const std::string& name, int64_t row, int64_t column) {
    const ordered_json& tensor = header_[name];
    const auto columns = tensor["shape"].back().get<int64_t>();
    return &bytes_[data_ + tensor["data_offsets"][0].get<size_t>() + static_cast<size_t>(2 * (row * columns + column))];
  }
  void copy(const std::string& name, int64_t from_row, int64_t from_column, int64_t row, int64_t column) {
    std::memcpy(at(name, row, column), at(name, from_row, from_column), 2);
  }

 private:
  std::filesystem::path file_;
  std::string bytes_;
  ordered_json header_;
  size_t data_ = 0;
};

constexpr int kHidden = 72, kVocab = 211, kMlp = 104, kI = 3, kJ = 53;  // kI, kJ: their norm weights are equal
constexpr int32_t kTwin = 200;
// Operands are bfloat16: a sum that moves by one rounding can move an operand by 2^-9 of itself.
constexpr double kClear = 0.25;

// Elements kI and kJ of every hidden state become equal, and row kTwin of the head becomes row `token` with those two
// columns in each other's place: the same sum in another order, so that the logits are equal but for its rounding.
void plant(const std::filesystem::path& folder, int32_t token) {
  Weights weights(folder / "model.safetensors");
  for (int v = 0; v < kVocab; ++v) weights.copy("model.embed_tokens.weight", v, kI, v, kJ);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (int k = 0; k < kHidden; ++k) weights.copy(prefix + "self_attn.o_proj.weight", kI, k, kJ, k);
    for (int k = 0; k < kMlp; ++k) weights.copy(prefix + "mlp.down_proj.weight", kI, k, kJ, k);
  }
  for (int k = 0; k < kHidden; ++k) {  // four times as large, so that the pair is the likeliest wherever it is likely
    weights.at("lm_head.weight", token, k)[1] = static_cast<char>(weights.at("lm_head.weight", token, k)[1] + 1);
  }
  for (int k = 0; k < kHidden; ++k) {
    weights.copy("lm_head.weight", token, k == kI ? kJ : k == kJ ? kI : k, kTwin, k);
  }
}

Corpus corpus_of(int prompts) {
  Corpus corpus;
  corpus.name = "test";
  for (int i = 0; i < prompts; ++i) {
    std::vector<int> prompt;
    for (int k = 0; k < 5 + i; ++k) prompt.push_back((k * 11 + 17 * i) % 190);
    CorpusRequest request;
    request.id = "p" + std::to_string(i), request.category = i % 2 == 0 ? "even" : "odd";
    request.request = {{"prompt", prompt}, {"max_tokens", 24}, {"temperature", 0}};
    corpus.requests.push_back(request);
  }
  return corpus;
}

NearTies ties_of(const std::filesystem::path& folder, const Corpus& corpus) {
  NearTieOptions options;
  options.engine.model = folder.string();
  options.engine.threads = 2;
  options.engine.kv_memory = size_t{1} << 24;
  auto ties = find_near_ties(corpus, options);
  if (!ties.ok()) throw std::runtime_error(ties.error().message);
  return std::move(ties).value();
}

bool is_planted(const NearTiePosition& p, int32_t token) {
  return std::minmax(p.token, p.runner_up) == std::minmax(token, kTwin);
}

TEST(NearTie, APlantedOneIsFoundAndClearMarginsAreNot) {
  const test::TempDirectory plain, planted;
  testing::write_tiny_llama(plain.path());
  const Corpus corpus = corpus_of(8);
  const NearTies before = ties_of(plain.path(), corpus);
  EXPECT_EQ(before.control_difference, 0.0);
  EXPECT_EQ(before.numerics, "fma32-v1");
  EXPECT_EQ(before.free_numerics, "fma32-free");
  std::vector<int> count(kVocab);
  for (const NearTiePrompt& prompt : before.prompts) {
    for (const NearTiePosition& position : prompt.positions) {
      ++count[static_cast<size_t>(position.token)];
      if (position.margin > kClear) {
        EXPECT_FALSE(position.at_risk()) << prompt.id << " " << position.margin;
      }
    }
  }
  const auto token = static_cast<int32_t>(std::max_element(count.begin(), count.end()) - count.begin());
  testing::write_tiny_llama(planted.path());
  plant(planted.path(), token);
  const NearTies after = ties_of(planted.path(), corpus);
  EXPECT_EQ(after.control_difference, 0.0);
  int met = 0, found = 0, clear = 0, false_alarms = 0;
  for (const NearTiePrompt& prompt : after.prompts) {
    for (const NearTiePosition& position : prompt.positions) {
      if (is_planted(position, token)) {
        EXPECT_LT(position.margin, 1e-4);
        ++met, found += position.at_risk();
      } else if (position.margin > kClear) {
        ++clear, false_alarms += position.at_risk();
      }
    }
  }
  EXPECT_GT(met, 20) << "the planted pair is the likeliest in many places";
  EXPECT_GT(found, 0) << "of " << met;
  EXPECT_GT(clear, 20);
  EXPECT_EQ(false_alarms, 0);
}

TEST(NearTie, TheReportCountsWhatWasFound) {
  NearTies ties;
  ties.runs = {{1, 8}, {3, 8}};
  NearTiePrompt prompt{"p", "c", false, {}};
  prompt.positions.push_back({1, 2, 0.5, 1e-6, {}, "a", "b"});
  prompt.positions.push_back({1, 2, 1e-7, 2e-6, {}, "a", "b"});
  prompt.positions.push_back({1, 2, 1e-6, 3e-6, {1}, "<script>", "b"});
  ties.prompts = {prompt, {"q", "d", true, {{1, 2, 2.0, 0.0, {}, "a", "b"}}}};
  ties.skipped = {{"r", "no template"}};
  const ordered_json report = near_tie_report(ties, corpus_of(3));
  EXPECT_EQ(report["kind"], "near-tie");
  EXPECT_EQ(report["verdict"], "done");
  EXPECT_EQ(report["counts"].dump(), R"({"positions":4,"at_risk":2,"flipped":1,"exact_ties":0,"prompts":2,)"
                                     R"("prompts_flipped":1,"skipped":1})");
  EXPECT_EQ(report["runs"][1]["flipped"], 1);
  EXPECT_EQ(report["runs"][0]["flipped"], 0);
  EXPECT_EQ(report["difference"]["max"], 3e-6);
  EXPECT_EQ(report["difference"]["median"], 1e-6);
  for (const char* name : {"margins", "differences"}) {
    uint64_t sum = 0;
    for (const auto& count : report[name]["counts"]) sum += count.get<uint64_t>();
    EXPECT_EQ(sum, 4u) << name;
    EXPECT_EQ(report[name]["edges"].size(), report[name]["counts"].size() + 1);
  }
  EXPECT_EQ(report["categories"].size(), 2u);
  EXPECT_EQ(report["prompts"][0]["at"][0]["position"], 1) << "the closest of those at risk comes first";
  EXPECT_EQ(report["prompts"][0]["at"][1]["flipped_by"][0], "threads=3 rows=8");
  EXPECT_EQ(report["prompts"][1]["path"], "golden");
  EXPECT_NE(near_tie_text(report).find("In 2 of 4 positions (50.00 %)"), std::string::npos) << near_tie_text(report);
  ties.control_difference = 1e-9;
  EXPECT_EQ(near_tie_report(ties, corpus_of(3))["verdict"], "fail");
}

TEST(NearTie, WhatTheModelCannotBeAskedIsSkippedAndNamed) {
  const test::TempDirectory folder;
  testing::write_tiny_llama(folder.path());
  Corpus corpus = corpus_of(2);
  corpus.requests[1].request = {{"prompt", "text, but the model has no tokenizer"}};
  const NearTies ties = ties_of(folder.path(), corpus);
  ASSERT_EQ(ties.prompts.size(), 1u);
  ASSERT_EQ(ties.skipped.size(), 1u);
  EXPECT_EQ(ties.skipped[0].id, "p1");
  corpus.requests[0] = corpus.requests[1];
  NearTieOptions options;
  options.engine.model = folder.path().string();
  EXPECT_FALSE(find_near_ties(corpus, options).ok());
  options.engine.numerics = "mma16";
  const auto exact = find_near_ties(corpus_of(1), options);
  ASSERT_FALSE(exact.ok());
  EXPECT_NE(exact.error().message.find("mma16"), std::string::npos);
}

TEST(NearTie, AGoldenPathIsFollowed) {
  const test::TempDirectory folder;
  testing::write_tiny_llama(folder.path());
  Corpus corpus = corpus_of(1);
  corpus.requests[0].request["golden_token_ids"] = {5, 6, 7, 8, 9, 10};
  corpus.requests[0].request["max_tokens"] = 6;
  const NearTies ties = ties_of(folder.path(), corpus);
  EXPECT_TRUE(ties.prompts[0].forced);
  EXPECT_EQ(ties.prompts[0].positions.size(), 6u);
  for (const auto& position : ties.prompts[0].positions) EXPECT_GE(position.margin, 0.0) << "of the likeliest, still";
}

}  // namespace
}  // namespace eadem::audit
