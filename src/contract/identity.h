// The identity of answers: a digest over everything that may move bits, and nothing else. Equal identity promises equal
// bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "contract/digest_cache.h"
#include "numerics/version.h"
#include "weights/checkpoint.h"

namespace eadem::contract {

// The version of the sampler's order of steps (src/sampler); a change that moves a token is a new one.
inline constexpr int kSamplerVersion = 1;

struct Identity {
  std::string weights;    // BLAKE3 over each tensor's name, dtype, shape and bytes, by name
  std::string config;     // over the model's description, without what is about text
  std::string tokenizer;  // over tokenizer.json and its config, or GGUF's tokenizer.* values
  std::string chat_template;
  std::string end_tokens;  // the token ids that end an answer, ascending
  std::string numerics;    // full name
  std::string sampler;
  // The libraries that make tokens of text, text of tokens and masks of grammars, with their versions
  std::string text_libraries;

  // RFC 8785 JSON of the fields (strings alone), and BLAKE3 over it: 64 hexadecimal digits.
  std::string canonical() const;
  std::string digest() const;
};

// What Identity::chat_template is for this source of a template (empty: the model has none).
std::string digest_of_template(std::string_view source);

// BLAKE3 over each tensor's name, dtype, shape and bytes, by name. Reads all weights (a gigabyte takes about a second),
// unless the cache knows the digest of these files.
std::string digest_of_weights(const weights::Checkpoint& checkpoint, DigestCache& cache);

// numerics: the full name.
Identity identity_of(const weights::Checkpoint& checkpoint, std::string_view numerics,
                     const std::vector<int32_t>& end_tokens, DigestCache& cache);

}  // namespace eadem::contract
