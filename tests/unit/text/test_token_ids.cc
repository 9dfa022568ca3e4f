// Token ids equal those of the reference tokenizers on 1,000 strings: the `tokenizers` library for tokenizer.json
// files, llama.cpp for GGUF metadata (make_fixtures.py says how they were made).
#include <gtest/gtest.h>

#include "fixtures_io.h"
#include "text/tokenizer.h"

namespace eadem::text {
namespace {

constexpr size_t kStrings = 1000;

// Number of strings whose ids differ from the file's, which holds those of plain text, then those with special tokens
// added and parsed. Prints the first few.
size_t count_differences(const Tokenizer& tokenizer, const std::string& ids_file, bool special, bool print = true) {
  const std::vector<std::string> strings = read_records("strings");
  auto expected = read_ids(ids_file);
  EXPECT_EQ(strings.size(), kStrings);
  if (special) expected.erase(expected.begin(), expected.begin() + std::min(kStrings, expected.size()));
  EXPECT_GE(expected.size(), kStrings);
  const EncodeOptions options = {.add_special = special, .parse_special = special};
  size_t differences = 0, tokens = 0;
  for (size_t i = 0; i < std::min(strings.size(), expected.size()); ++i) {
    auto ids = tokenizer.encode(strings[i], options);
    tokens += expected[i].size();
    if (ids.ok() && ids.value() == expected[i]) continue;
    if (++differences <= 3 && print) {
      std::string ours = ids.ok() ? "" : ids.error().message, theirs;
      for (const uint32_t id : ids.ok() ? ids.value() : std::vector<uint32_t>{}) {
        ours += " [" + std::string(tokenizer.token_text(id)) + "]";
      }
      for (const uint32_t id : expected[i]) theirs += " [" + std::string(tokenizer.token_text(id)) + "]";
      ADD_FAILURE() << ids_file << " string " << i << ": '" << strings[i] << "'\n ours " << ours << "\n reference "
                    << theirs;
    }
  }
  EXPECT_GT(tokens, 10000u);  // the comparison saw real work
  return differences;
}

void expect_equal(const Tokenizer& tokenizer, const std::string& name) {
  EXPECT_EQ(count_differences(tokenizer, name + ".ids", false), 0u);
  EXPECT_EQ(count_differences(tokenizer, name + ".ids", true), 0u);
}

class JsonTokenIds : public testing::TestWithParam<const char*> {};

TEST_P(JsonTokenIds, EqualTheTokenizersLibrary) {
  const std::string name = std::string("json_") + GetParam();
  auto tokenizer = Tokenizer::from_json(read_file(name + ".json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_equal(tokenizer.value(), name);
}

INSTANTIATE_TEST_SUITE_P(Kinds, JsonTokenIds,
                         testing::Values("smollm", "qwen", "llama3", "llama2", "mistral", "unigram"));

class GgufTokenIds : public testing::TestWithParam<const char*> {};

TEST_P(GgufTokenIds, EqualLlamaCpp) {
  const std::string name = std::string("gguf_") + GetParam();
  auto tokenizer = Tokenizer::from_gguf(read_vocab(name + ".vocab"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_equal(tokenizer.value(), name);
}

INSTANTIATE_TEST_SUITE_P(Files, GgufTokenIds, testing::Values("smollm2", "stories260k", "spm"));

class PreTokenizers : public testing::TestWithParam<const char*> {};

Tokenizer boundless_bpe(const std::string& pre) {
  GgufVocab vocab = read_vocab("gguf_bpe.vocab");
  vocab.pre = pre;
  auto tokenizer = Tokenizer::from_gguf(vocab);
  EXPECT_TRUE(tokenizer.ok());
  return tokenizer.value();
}

TEST_P(PreTokenizers, EqualLlamaCpp) {
  EXPECT_EQ(count_differences(boundless_bpe(GetParam()), std::string("gguf_bpe.") + GetParam() + ".ids", false), 0u);
}

INSTANTIATE_TEST_SUITE_P(Names, PreTokenizers,
                         testing::Values("default", "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "qwen35", "tekken",
                                         "gpt-4o", "deepseek-v3", "falcon"));

// Negative control: the strings tell every two neighbouring pre-tokenizers apart.
TEST(TokenIds, AWrongPreTokenizerIsSeen) {
  const char* names[] = {"default", "gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o"};
  for (size_t i = 0; i + 1 < std::size(names); ++i) {
    const std::string ids = std::string("gguf_bpe.") + names[i] + ".ids";
    EXPECT_GT(count_differences(boundless_bpe(names[i + 1]), ids, false, false), 4u) << names[i + 1];
  }
}

TEST(TokenIds, AnAbsentNameMeansDefault) {
  EXPECT_EQ(count_differences(boundless_bpe(""), "gguf_bpe.default.ids", false), 0u);
}

}  // namespace
}  // namespace eadem::text
