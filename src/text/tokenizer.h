// Text to token ids and back. A Tokenizer never changes after it was made: any number of threads may use one, and
// copies share it. The work is done by the Rust library in rust/text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

struct EademTokenizer;
struct EademStream;

namespace eadem::text {

// The tokenizer.ggml.* metadata of a GGUF file; whoever reads the file fills it. Absent keys stay empty.
struct GgufVocab {
  std::string model;                // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;                  // tokenizer.ggml.pre: name of the pre-tokenizer of gpt2; empty means "default"
  std::vector<std::string> tokens;  // tokenizer.ggml.tokens, by id
  std::vector<float> scores;        // tokenizer.ggml.scores, by id; needed by "llama"
  std::vector<int32_t>
      token_types;  // tokenizer.ggml.token_type, by id: 1 normal 2 unknown 3 control 4 user-defined 6 byte
  std::vector<std::string> merges;  // tokenizer.ggml.merges, "left right", best first; needed by "gpt2"
  std::optional<uint32_t> bos_id, eos_id, unknown_id, pad_id;  // tokenizer.ggml.*_token_id
  std::optional<bool> add_bos, add_eos, add_space_prefix;      // tokenizer.ggml.add_*
};

struct EncodeOptions {
  bool add_special = true;    // put BOS and the like around the text, as the tokenizer says
  bool parse_special = true;  // special tokens spelled in the text become their ids; otherwise they are plain text
};

struct DecodeOptions {
  bool skip_special = true;   // leave special tokens out
  bool continuation = false;  // the ids follow others that were shown before: a leading space separates words and stays
};

class Tokenizer {
 public:
  // From the bytes of a tokenizer.json, and of the tokenizer_config.json beside it (empty: none), which names BOS and
  // EOS.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json, std::string_view tokenizer_config = {});
  static Result<Tokenizer> from_gguf(const GgufVocab& vocab);

  // Bytes that are not UTF-8 count as U+FFFD, one for each maximal broken part.
  Result<std::vector<uint32_t>> encode(std::string_view text, EncodeOptions options = {}) const;
  // Valid UTF-8 always: broken characters are U+FFFD. Ids beyond the vocabulary add nothing.
  std::string decode(std::span<const uint32_t> ids, DecodeOptions options = {}) const;

  // One more than the greatest id. A model may have more logits than this.
  size_t vocab_size() const;
  // The token as the vocabulary spells it, and the bytes it stands for in the middle of a text; empty for unknown ids.
  std::string_view token_text(uint32_t id) const;
  std::string_view token_bytes(uint32_t id) const;
  bool is_special(uint32_t id) const;
  std::optional<uint32_t> token_id(std::string_view text) const;
  std::optional<uint32_t> bos_id() const;
  std::optional<uint32_t> eos_id() const;
  std::optional<uint32_t> unknown_id() const;
  std::optional<uint32_t> pad_id() const;
  // The ids at which an answer ends: EOS, and for GGUF also the other tokens known to end a turn or a text. What a
  // generation_config.json names comes on top; that file is not the tokenizer's.
  std::span<const uint32_t> end_ids() const;

 private:
  friend class StreamDecoder;
  friend class GuideFactory;
  explicit Tokenizer(EademTokenizer* handle);

  std::shared_ptr<const EademTokenizer> handle_;
};

// Ids to text, one at a time: never part of a character, and all pieces joined are exactly Tokenizer::decode of all
// ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {});

  // What this token makes certain; empty while a character is unfinished.
  std::string push(uint32_t id);
  // The rest: U+FFFD if a character stayed unfinished. The decoder is then at its start again.
  std::string finish();

 private:
  struct Free {
    void operator()(EademStream* stream) const;
  };

  std::shared_ptr<const EademTokenizer> tokenizer_;
  std::unique_ptr<EademStream, Free> handle_;
};

// The token that a tokenizer_config.json names, e.g. field "bos_token"; none if the file does not name it.
Result<std::optional<std::string>> config_token(std::string_view tokenizer_config, std::string_view field);

}  // namespace eadem::text
