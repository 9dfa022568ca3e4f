// Ids to text: whole, and as a stream that never splits a character.
#include <gtest/gtest.h>

#include <random>

#include "fixtures_io.h"
#include "text/tokenizer.h"

namespace eadem::text {
namespace {

const char* const kNames[] = {"json_smollm",  "json_qwen",    "json_llama3",      "json_llama2", "json_mistral",
                              "json_unigram", "gguf_smollm2", "gguf_stories260k", "gguf_spm"};

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";    // U+2581

Tokenizer load(const std::string& name) {
  const bool json = name.starts_with("json");
  auto tokenizer =
      json ? Tokenizer::from_json(read_file(name + ".json")) : Tokenizer::from_gguf(read_vocab(name + ".vocab"));
  EXPECT_TRUE(tokenizer.ok());
  return std::move(tokenizer).value();
}

// Whether every byte belongs to a whole character (lengths and continuation bytes; decoders make no other faults).
bool is_whole_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint8_t lead = static_cast<uint8_t>(text[at]);
    const size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || at + size > text.size()) return false;
    for (size_t i = 1; i < size; ++i) {
      if ((static_cast<uint8_t>(text[at + i]) & 0xC0) != 0x80) return false;
    }
    at += size;
  }
  return true;
}

std::vector<std::vector<uint32_t>> random_sequences(const Tokenizer& tokenizer) {
  std::mt19937 random(11);
  std::vector<std::vector<uint32_t>> sequences(300);
  for (auto& ids : sequences) {
    ids.resize(random() % 40);
    // Half from the low ids, where the byte tokens are, and a few beyond the vocabulary.
    for (uint32_t& id : ids) {
      id = static_cast<uint32_t>(random() % (random() % 2 ? 270 : tokenizer.vocab_size() + 5));
    }
  }
  return sequences;
}

class Decode : public testing::TestWithParam<const char*> {};

TEST_P(Decode, StreamsEqualTheWhole) {
  const Tokenizer tokenizer = load(GetParam());
  auto sequences = random_sequences(tokenizer);
  for (auto& ids : read_ids(std::string(GetParam()) + ".ids")) sequences.push_back(std::move(ids));
  size_t waited = 0, naive_differences = 0;
  for (const auto& ids : sequences) {
    for (const DecodeOptions options :
         {DecodeOptions{true, false}, DecodeOptions{false, false}, DecodeOptions{true, true}}) {
      StreamDecoder stream(tokenizer, options);
      std::string joined, naive;
      for (const uint32_t id : ids) {
        const std::string piece = stream.push(id);
        ASSERT_TRUE(is_whole_utf8(piece));
        waited += piece.empty();
        joined += piece;
        naive += tokenizer.decode({&id, 1}, options);
      }
      joined += stream.finish();
      const std::string whole = tokenizer.decode(ids, options);
      ASSERT_EQ(joined, whole);
      naive_differences += naive != whole;
      ASSERT_EQ(stream.finish(), "");  // the stream is at its start again
    }
  }
  EXPECT_GT(waited, 100u);             // characters did come in parts
  EXPECT_GT(naive_differences, 100u);  // decoding token by token is wrong, and this test sees it
}

INSTANTIATE_TEST_SUITE_P(All, Decode, testing::ValuesIn(kNames));

class DecodeJson : public testing::TestWithParam<const char*> {};

TEST_P(DecodeJson, EqualsTheTokenizersLibrary) {
  const std::string name = GetParam();
  const Tokenizer tokenizer = load(name);
  const auto strings = read_records("strings");
  const auto ids = read_ids(name + ".ids");
  const auto expected = read_records(name + ".decoded");
  ASSERT_EQ(expected.size(), strings.size());
  size_t same = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    same += expected[i] == "=";
    ASSERT_EQ(tokenizer.decode(ids[i]), expected[i] == "=" ? strings[i] : expected[i].substr(1)) << i;
  }
  EXPECT_GT(same, name == "json_unigram" ? 100u : 500u);  // most texts come back as they were
}

INSTANTIATE_TEST_SUITE_P(All, DecodeJson,
                         testing::Values("json_smollm", "json_qwen", "json_llama3", "json_llama2", "json_mistral",
                                         "json_unigram"));

// Broken characters become U+FFFD exactly as in the library.
TEST(DecodeBytes, RandomIdsEqualTheTokenizersLibrary) {
  for (const char* name : {"json_smollm", "json_qwen", "json_llama3"}) {
    const Tokenizer tokenizer = load(name);
    const auto records = read_records(std::string(name) + ".random");
    ASSERT_EQ(records.size(), 400u);
    size_t broken = 0;
    for (size_t i = 0; i < records.size(); i += 2) {
      ASSERT_EQ(tokenizer.decode(unpack_ids(records[i]), {.skip_special = false}), records[i + 1]) << name << " " << i;
      broken += records[i + 1].find(kReplacement) != std::string::npos;
    }
    EXPECT_GT(broken, 100u);
  }
}

// What was encoded comes back, whole or as the continuation of a part; only broken UTF-8 does not, nor do U+2581, which
// SentencePiece takes for a space, and text after an added token, which gets a space in front as at the start.
TEST(DecodeRoundTrip, GgufTextsComeBack) {
  for (const char* name : {"gguf_smollm2", "gguf_stories260k", "gguf_spm"}) {
    const Tokenizer tokenizer = load(name);
    size_t came_back = 0, continued = 0;
    const auto strings = read_records("strings");
    const auto all = read_ids(std::string(name) + ".ids");
    for (size_t i = 0; i < strings.size(); ++i) {
      const std::vector<uint32_t>& ids = all[i];
      const std::string decoded = tokenizer.decode(ids);
      const bool exact =
          strings[i].find(kSpaceMark) == std::string::npos && strings[i].find("<tool>") == std::string::npos;
      if (exact && decoded.find(kReplacement) == std::string::npos) {
        ASSERT_EQ(decoded, strings[i]);
        ++came_back;
      }
      for (size_t cut : {ids.size() / 3, ids.size() / 2}) {
        std::string bytes;
        for (const uint32_t id : ids) bytes += tokenizer.token_bytes(id);
        size_t head = 0;
        for (size_t k = 0; k < cut; ++k) head += tokenizer.token_bytes(ids[k]).size();
        if (cut == 0 || !is_whole_utf8(std::string_view(bytes).substr(0, head))) continue;
        ++continued;
        const std::span<const uint32_t> span(ids);
        ASSERT_EQ(tokenizer.decode(span.first(cut)) + tokenizer.decode(span.subspan(cut), {.continuation = true}),
                  decoded);
      }
    }
    EXPECT_GT(came_back, 800u) << name;
    EXPECT_GT(continued, 1000u) << name;
  }
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer smollm2 = load("gguf_smollm2");
  EXPECT_EQ(smollm2.vocab_size(), 49152u);
  EXPECT_EQ(smollm2.bos_id(), 1u);
  EXPECT_EQ(smollm2.eos_id(), 2u);
  EXPECT_EQ(smollm2.token_id("<|im_end|>"), 2u);
  EXPECT_EQ(smollm2.token_id("no such token"), std::nullopt);
  EXPECT_TRUE(smollm2.is_special(2));
  EXPECT_FALSE(smollm2.is_special(300));
  EXPECT_FALSE(smollm2.is_special(1u << 30));
  EXPECT_EQ(smollm2.end_ids().front(), 2u);
  const auto hello = smollm2.token_id("Ġhello");
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(smollm2.token_text(*hello), "Ġhello");
  EXPECT_EQ(smollm2.token_bytes(*hello), " hello");
  EXPECT_EQ(smollm2.token_bytes(1u << 30), "");

  const Tokenizer spm = load("gguf_spm");
  EXPECT_EQ(spm.bos_id(), 1u);
  EXPECT_EQ(spm.unknown_id(), 0u);
  const auto byte = spm.token_id("<0xE2>");
  ASSERT_TRUE(byte.has_value());
  EXPECT_EQ(spm.token_bytes(*byte), "\xE2");
}

TEST(Tokenizer, TakesRolesFromTheConfig) {
  const std::string config =
      R"({"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>", "pad_token": null})";
  auto tokenizer = Tokenizer::from_json(read_file("json_smollm.json"), config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value().bos_id(), 1u);
  EXPECT_EQ(tokenizer.value().eos_id(), 2u);
  EXPECT_EQ(tokenizer.value().pad_id(), std::nullopt);
  EXPECT_EQ(config_token(config, "eos_token").value(), "<|im_end|>");
  EXPECT_EQ(config_token(config, "pad_token").value(), std::nullopt);
  auto bad = Tokenizer::from_json(read_file("json_smollm.json"), R"({"eos_token": "<missing>"})");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("eos_token"), std::string::npos);
}

}  // namespace
}  // namespace eadem::text
