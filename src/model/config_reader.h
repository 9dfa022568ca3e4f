// One way to read a model's description, whichever format it came in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "model/config.h"
#include "weights/checkpoint.h"

namespace eadem::model {

class ConfigReader {
 public:
  explicit ConfigReader(const weights::Checkpoint& checkpoint);

  bool is_gguf() const { return gguf_; }
  const weights::Checkpoint& checkpoint() const { return checkpoint_; }
  // The architecture as the file names it: "LlamaForCausalLM", or GGUF's "llama".
  Result<std::string> architecture() const;

  // A field by its name in config.json and its name in GGUF after "<architecture>."; an empty name means the format has
  // none.
  Result<int64_t> integer(std::string_view hf, std::string_view gguf) const;
  Result<int64_t> integer_or(std::string_view hf, std::string_view gguf, int64_t otherwise) const;
  Result<double> number_or(std::string_view hf, std::string_view gguf, double otherwise) const;
  Result<bool> flag_or(std::string_view hf, bool otherwise) const;
  Result<std::string> text_or(std::string_view hf, std::string_view gguf, std::string otherwise) const;
  bool has(std::string_view hf, std::string_view gguf) const;

  // An Error that names this model's file.
  Error error(const std::string& message) const;

 private:
  std::string key(std::string_view hf, std::string_view gguf) const;

  const weights::Checkpoint& checkpoint_;
  bool gguf_;
  std::string prefix_;
};

// The fields that all families share: sizes, norm, rope with its scaling. Checks that they make sense together.
Result<ModelConfig> read_common_config(const ConfigReader& reader);

}  // namespace eadem::model
