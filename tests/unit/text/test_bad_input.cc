// Whatever a file or a request holds: an error of one line, never a crash, never an endless run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "fixtures_io.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace eadem::text {
namespace {

template <class T>
void expect_error(const Result<T>& result, std::string_view part) {
  ASSERT_FALSE(result.ok()) << "expected an error about " << part;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos) << result.error().message;
  EXPECT_LT(result.error().message.size(), 2000u);
}

TEST(BadTokenizerJson, IsRefused) {
  expect_error(Tokenizer::from_json(""), "tokenizer.json");
  expect_error(Tokenizer::from_json("{}"), "tokenizer.json");
  expect_error(Tokenizer::from_json("[1, 2"), "not valid JSON");
  expect_error(Tokenizer::from_json(std::string(100000, '[')), "not valid JSON");
  expect_error(Tokenizer::from_json(read_file("json_qwen.json"), "{"), "tokenizer_config.json");
  std::string json = read_file("json_qwen.json");
  std::string random = json;
  random.replace(random.find("\"dropout\":null"), 14, "\"dropout\":0.5");
  expect_error(Tokenizer::from_json(random), "dropout");
  std::string decoder = json;
  const size_t at = decoder.find("\"decoder\":{\"type\":\"ByteLevel\"");
  ASSERT_NE(at, std::string::npos);
  decoder.replace(at, decoder.find('}', at) + 1 - at,
                  "\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"p\",\"word_delimiter_token\":\"w\",\"cleanup\":true}");
  expect_error(Tokenizer::from_json(decoder), "CTC");
}

// Truncated and damaged files load or are refused; what loads encodes or refuses.
TEST(BadTokenizerJson, DamageNeverCrashes) {
  std::mt19937 random(5);
  size_t refused = 0, loaded = 0;
  for (const char* name : {"json_qwen.json", "json_llama2.json", "json_unigram.json"}) {
    const std::string good = read_file(name);
    for (int trial = 0; trial < 120; ++trial) {
      std::string bad = good;
      if (trial % 4 == 0) {
        bad.resize(random() % bad.size());
      } else if (trial % 4 == 1) {
        bad[random() % bad.size()] = "abcXYZ019 "[random() % 10];
      } else {
        // Half of the damage in the first part, where the structure is.
        const size_t range = trial % 2 ? std::min<size_t>(2000, bad.size()) : bad.size();
        for (int edit = 0; edit < 3; ++edit) bad[random() % range] = "0123456789{}[]\",:ae\\\x80\xff"[random() % 23];
      }
      auto tokenizer = Tokenizer::from_json(bad);
      if (!tokenizer.ok()) {
        ++refused;
        continue;
      }
      ++loaded;
      const auto ids = tokenizer.value().encode("Hello wörld 123 <s>\xff");
      if (ids.ok()) (void)tokenizer.value().decode(ids.value());
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(loaded, 10u);
}

TEST(BadGgufVocab, IsRefusedByName) {
  const GgufVocab spm = read_vocab("gguf_spm.vocab");
  const GgufVocab bpe = read_vocab("gguf_bpe.vocab");
  const auto with = [](GgufVocab vocab, auto change) {
    change(vocab);
    return Tokenizer::from_gguf(vocab);
  };
  expect_error(with(bpe, [](GgufVocab& v) { v.model = "bert"; }), "'bert'");
  expect_error(with(bpe, [](GgufVocab& v) { v.pre = "future-bpe"; }), "'future-bpe'");
  expect_error(with(bpe, [](GgufVocab& v) { v.pre = "a\xff"; }), "tokenizer.ggml.pre");
  expect_error(with(bpe, [](GgufVocab& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens");
  expect_error(with(bpe, [](GgufVocab& v) { v.token_types.pop_back(); }), "tokenizer.ggml.token_type");
  expect_error(with(bpe, [](GgufVocab& v) { v.eos_id = 4001; }), "tokenizer.ggml.eos_token_id");
  expect_error(with(bpe, [](GgufVocab& v) { v.merges[7] = "nospace"; }), "nospace");
  expect_error(with(bpe, [](GgufVocab& v) { v.merges[7] = "notoken Ġ"; }), "tokenizer.ggml.merges");
  expect_error(with(bpe, [](GgufVocab& v) { v.merges[7] = ""; }), "tokenizer.ggml.merges");
  expect_error(with(bpe, [](GgufVocab& v) { v.merges[7] = std::string(100000, 'm'); }), "tokenizer.ggml.merges");
  expect_error(with(bpe, [](GgufVocab& v) { v.tokens[300] = "\xff\xfe"; }), "entry 300");
  expect_error(with(bpe, [](GgufVocab& v) { v.bos_id.reset(); }), "add_bos_token");
  expect_error(with(spm, [](GgufVocab& v) { v.scores.clear(); }), "tokenizer.ggml.scores");
  expect_error(with(spm, [](GgufVocab& v) { v.scores[9] = std::numeric_limits<float>::quiet_NaN(); }), "token 9");
  expect_error(with(spm, [](GgufVocab& v) { v.tokens[5] = "<0xZZ>"; }), "byte token 5");
  // -1 written as an unsigned number means none; without byte tokens unknown characters are the unknown token.
  EXPECT_TRUE(with(spm, [](GgufVocab& v) { v.pad_id = 0xFFFFFFFF; }).ok());
  auto no_bytes = with(spm, [](GgufVocab& v) {
    for (int32_t& type : v.token_types) type = type == 6 ? 5 : type;
  });
  ASSERT_TRUE(no_bytes.ok());
  EXPECT_EQ(no_bytes.value().encode("\xF0\x9F\xAB\xA0\xF0\x9F\xAB\xA1", {false, false}).value().back(), 0u);
}

TEST(BadTemplate, IsRefused) {
  expect_error(ChatTemplate::parse("{% if x %}"), "line 1");
  expect_error(ChatTemplate::parse("a\n{{ x"), "line 2");
  expect_error(ChatTemplate::parse("{{ 'a' }}\xff"), "UTF-8");
  expect_error(ChatTemplate::parse("{% include 'other' %}"), "chat template");
  expect_error(ChatTemplate::parse("{%}"), "chat template");
  expect_error(ChatTemplate::parse(std::string(600000, ' ')), "600000 bytes");
  expect_error(ChatTemplate::parse("\n{{ {'a': {}}" + std::string(5000, '-') + " }}"), "line 2");
  EXPECT_TRUE(ChatTemplate::parse("{{ '" + std::string(50000, '-') + "' }}" + std::string(50000, '-')).ok());
  auto good = ChatTemplate::parse("{{ messages[0].content }}");
  ASSERT_TRUE(good.ok());
  expect_error(good.value().render({.messages_json = "[{"}), "not valid JSON");
  expect_error(good.value().render({.messages_json = "[]", .kwargs_json = "[1]"}), "chat_template_kwargs");
  expect_error(good.value().render({.messages_json = "[]"}), "line 1");
  expect_error(good.value().render_json("3"), "JSON object");
  expect_error(good.value().render_json(std::string(100000, '[')), "not valid JSON");
}

TEST(BadTemplate, DeepNestingNeverCrashes) {
  const auto repeat = [](std::string_view text, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += text;
    return out;
  };
  for (const size_t n : {100u, 600u, 3000u, 20000u}) {
    for (const std::string& source : {"{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}",
                                      "{{ " + repeat("[", n) + repeat("]", n) + " }}",
                                      "{{ " + repeat("{'a':", n) + "1" + repeat("}", n) + " }}",
                                      "{{ " + repeat("not ", n) + "x }}",
                                      "{{ " + repeat("-", n) + "1 }}",
                                      "{{ x" + repeat(".a", n) + " }}",
                                      "{{ x" + repeat("[x", n) + repeat("]", n) + " }}",
                                      "{{ 1" + repeat(" + 1", n) + " }}",
                                      "{{ 'a'" + repeat(" ~ 'a'", n) + " }}",
                                      "{{ 1" + repeat(" ** 1", n) + " }}",
                                      "{{ x" + repeat("|list", n) + " }}",
                                      "{{ x" + repeat(" and x", n) + " }}",
                                      "{{ 1" + repeat(" if x else 1", n) + " }}",
                                      repeat("{% if x %}", n) + repeat("{% endif %}", n),
                                      repeat("{% for a in x %}", n) + repeat("{% endfor %}", n),
                                      repeat("{% if x %}{% else %}", n),
                                      "{% if x %}" + repeat("{% elif x %}", n) + "{% endif %}",
                                      repeat("{% macro a() %}", n) + repeat("{% endmacro %}", n),
                                      repeat("{{ '{%' }}", n),
                                      repeat("{# ", n)}) {
      const auto parsed = ChatTemplate::parse(source);
      if (parsed.ok()) (void)parsed.value().render_json("{}", {.fuel = 100000});
    }
  }
}

// Parts of the templates of templates/, cut and joined anywhere: a fuzzer that starts from what real templates use.
// (libFuzzer sees no coverage inside the Rust library, and drops such seeds.)
TEST(BadTemplate, MutantsNeverCrash) {
  std::vector<std::string> seeds;
  for (const auto& file : std::filesystem::directory_iterator(EADEM_SOURCE_DIR "/tests/unit/text/templates")) {
    std::ifstream stream(file.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  std::sort(seeds.begin(), seeds.end());
  ASSERT_GE(seeds.size(), 20u);
  const ChatInput input = {
      .messages_json =
          R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [{"function":
          {"name": "f", "arguments": {"x": 1.5}}}]}, {"role": "tool", "content": [{"type": "text", "text": "42"}]}])",
      .tools_json =
          R"([{"type": "function", "function": {"name": "f",
          "parameters": {"properties": {"x": {"type": "number"}}}}}])"};
  std::mt19937 random(17);
  const auto part = [&](size_t longest) {
    const std::string& seed = seeds[random() % seeds.size()];
    const size_t start = random() % seed.size();
    return seed.substr(start, random() % longest);
  };
  size_t rendered = 0, refused = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    std::string mutant = trial % 2 ? seeds[random() % seeds.size()] : part(300);
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % (mutant.size() + 1);
      switch (random() % 4) {
        case 0: mutant.insert(at, part(60)); break;
        case 1: mutant.erase(at, random() % 20); break;
        case 2: mutant.insert(at, 1, "{}%#-'\"|.()[]~+ \xff"[random() % 18]); break;
        default: mutant.replace(at, random() % 8, part(12)); break;
      }
    }
    const auto parsed = ChatTemplate::parse(mutant);
    const auto text = parsed.ok() ? parsed.value().render(input, {.fuel = 20'000, .now = 0}) : Error{parsed.error()};
    ++(text.ok() ? rendered : refused);
    if (!text.ok()) expect_error(text, "chat template");
  }
  EXPECT_GT(rendered, 500u);
  EXPECT_GT(refused, 500u);
}

TEST(BadTemplate, RunawaysEnd) {
  for (const char* source : {
           "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
           "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x "
           "}}",
           "{{ 'a' * 99999999999 }}",
           "{{ range(99999999999)|list }}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{{ ('%999999999d' | format(1)) | length }}",
           "{{ 'x' | indent(999999999999) }}",
           "{{ {'a': 1} | tojson(indent=99999999999) }}",
           "{{ 2 ** 99999999 }}",
           "{{ 'a,' * 100000 | replace(',', 'b' * 100000) }}",
       }) {
    auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed.ok()) << source << parsed.error().message;
    const auto text = parsed.value().render_json("{}", {.fuel = 1'000'000});
    EXPECT_FALSE(text.ok()) << source;
  }
  // Nesting made by loops: its release recurses as deep as the fuel lasts, and has the stack for it.
  auto nested = ChatTemplate::parse(
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|length }}"
      "{% if forever %}{% for j in range(99) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor "
      "%}{% endif %}");
  ASSERT_TRUE(nested.ok());
  EXPECT_EQ(nested.value().render_json("{}").value(), "1");
  expect_error(nested.value().render_json(R"({"forever": true})"), "endless loop");
}

}  // namespace
}  // namespace eadem::text
