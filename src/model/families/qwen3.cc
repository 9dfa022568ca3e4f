// Qwen3 (dense): a norm over each head of q and k, a head size of its own, no biases by default. Source: transformers'
// Qwen3Config; GGUF's "qwen3" keys.
#include "model/family.h"

namespace eadem::model {
namespace {

constexpr std::string_view kHf[] = {"Qwen3ForCausalLM"};
constexpr std::string_view kGguf[] = {"qwen3"};

Result<ModelConfig> read(const ConfigReader& reader) {
  EADEM_ASSIGN_OR_RETURN(ModelConfig config, read_common_config(reader));
  EADEM_ASSIGN_OR_RETURN(const bool window, reader.flag_or("use_sliding_window", false));
  if (window)
    return reader.error("use_sliding_window is not supported for Qwen3: set it to false to use full attention");
  EADEM_ASSIGN_OR_RETURN(config.qkv_bias, reader.flag_or("attention_bias", false));
  config.output_bias = config.qkv_bias;
  config.qk_norm = true;
  EADEM_ASSIGN_OR_RETURN(config.tied_head, reader.flag_or("tie_word_embeddings", false));
  return config;
}

}  // namespace

const Family kQwen3 = {"qwen3", kHf, kGguf, false, read};

}  // namespace eadem::model
