// A tokenizer and a chat template for the tiny model of tiny_llama.h (211 tokens): byte-level BPE over ASCII, with the
// bytes of two characters of several bytes as tokens of their own, so that answers hold characters cut in pieces.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/model_files.h"

namespace eadem::testing {

inline constexpr std::string_view kTinyTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

inline std::string tiny_tokenizer() {
  using nlohmann::ordered_json;
  ordered_json vocab, merges = ordered_json::array(), added = ordered_json::array();
  int id = 0;
  for (const char* special : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", id},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocab[special] = id++;
  }
  for (char c = 33; c < 127; ++c) vocab[std::string(1, c)] = id++;
  // Blank, line feed, and the bytes of U+00E9 and U+20AC, as byte-level BPE spells them.
  for (const char* byte : {"\u0120", "\u010a", "\u00c3", "\u00a9", "\u00e2", "\u0124", "\u00ac"}) vocab[byte] = id++;
  for (char a = 'a'; a <= 'z' && id < 211; ++a) {
    for (const char b : {'e', 'n', 'o', 't', 's'}) {
      if (id >= 211) break;
      merges.push_back(std::string(1, a) + " " + b);
      vocab[std::string(1, a) + b] = id++;
    }
  }
  const ordered_json level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const ordered_json tokenizer = {{"version", "1.0"},
                                  {"truncation", nullptr},
                                  {"padding", nullptr},
                                  {"added_tokens", added},
                                  {"normalizer", nullptr},
                                  {"pre_tokenizer", level},
                                  {"post_processor", nullptr},
                                  {"decoder", level},
                                  {"model",
                                   {{"type", "BPE"},
                                    {"dropout", nullptr},
                                    {"unk_token", nullptr},
                                    {"continuing_subword_prefix", nullptr},
                                    {"end_of_word_suffix", nullptr},
                                    {"fuse_unk", false},
                                    {"byte_fallback", false},
                                    {"vocab", vocab},
                                    {"merges", merges}}}};
  return tokenizer.dump();
}

// Writes tokenizer.json, tokenizer_config.json and generation_config.json beside the model.
inline void write_tiny_text(const std::filesystem::path& folder) {
  test::write_file(folder / "tokenizer.json", tiny_tokenizer());
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"bos_token", "<s>"},
                               {"eos_token", "</s>"},
                               {"chat_template", kTinyTemplate}};
  test::write_file(folder / "tokenizer_config.json", config.dump());
  test::write_file(folder / "generation_config.json", R"({"eos_token_id":[1],"temperature":0.9,"top_k":150})");
}

}  // namespace eadem::testing
