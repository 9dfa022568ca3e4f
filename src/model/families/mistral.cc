// Mistral: Llama with a sliding window. Source: transformers' MistralConfig.
#include "model/family.h"

namespace eadem::model {
namespace {

constexpr std::string_view kHf[] = {"MistralForCausalLM"};

Result<ModelConfig> read(const ConfigReader& reader) {
  EADEM_ASSIGN_OR_RETURN(ModelConfig config, read_common_config(reader));
  EADEM_ASSIGN_OR_RETURN(config.window, reader.integer_or("sliding_window", "attention.sliding_window", 0));
  if (config.window < 0) return reader.error("sliding_window must not be negative");
  EADEM_ASSIGN_OR_RETURN(config.tied_head, reader.flag_or("tie_word_embeddings", false));
  return config;
}

}  // namespace

const Family kMistral = {"mistral", kHf, {}, true, read};

}  // namespace eadem::model
