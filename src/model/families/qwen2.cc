// Qwen2 and Qwen2.5 (dense): Llama with biases on q, k and v. Source: transformers' Qwen2Config; GGUF's "qwen2" keys.
#include "model/family.h"

namespace eadem::model {
namespace {

constexpr std::string_view kHf[] = {"Qwen2ForCausalLM"};
constexpr std::string_view kGguf[] = {"qwen2"};

Result<ModelConfig> read(const ConfigReader& reader) {
  EADEM_ASSIGN_OR_RETURN(ModelConfig config, read_common_config(reader));
  EADEM_ASSIGN_OR_RETURN(const bool window, reader.flag_or("use_sliding_window", false));
  if (window)
    return reader.error("use_sliding_window is not supported for Qwen2: set it to false to use full attention");
  config.qkv_bias = true;
  EADEM_ASSIGN_OR_RETURN(config.tied_head, reader.flag_or("tie_word_embeddings", false));
  return config;
}

}  // namespace

const Family kQwen2 = {"qwen2", kHf, kGguf, false, read};

}  // namespace eadem::model
