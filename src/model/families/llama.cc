// Llama 2 and 3.x, SmolLM2, TinyLlama and others that use the same architecture; also Mistral models in GGUF, which
// call themselves "llama". Source: transformers' LlamaConfig; GGUF's "llama" keys.
#include "model/family.h"

namespace eadem::model {
namespace {

constexpr std::string_view kHf[] = {"LlamaForCausalLM"};
constexpr std::string_view kGguf[] = {"llama"};

Result<ModelConfig> read(const ConfigReader& reader) {
  EADEM_ASSIGN_OR_RETURN(ModelConfig config, read_common_config(reader));
  EADEM_ASSIGN_OR_RETURN(const int64_t experts, reader.integer_or("", "expert_count", 0));
  if (experts > 0) return reader.error("mixtures of experts are not supported yet");
  EADEM_ASSIGN_OR_RETURN(config.window, reader.integer_or("", "attention.sliding_window", 0));  // Mistral's, in GGUF
  if (config.window < 0) return reader.error("attention.sliding_window must not be negative");
  EADEM_ASSIGN_OR_RETURN(config.qkv_bias, reader.flag_or("attention_bias", false));
  config.output_bias = config.qkv_bias;
  // GGUF says nothing of biases: what is there counts.
  if (reader.is_gguf()) config.qkv_bias = reader.checkpoint().find("blk.0.attn_q.bias") != nullptr;
  EADEM_ASSIGN_OR_RETURN(config.mlp_bias, reader.flag_or("mlp_bias", false));
  EADEM_ASSIGN_OR_RETURN(config.tied_head, reader.flag_or("tie_word_embeddings", false));
  return config;
}

}  // namespace

const Family kLlama = {"llama", kHf, kGguf, true, read};

}  // namespace eadem::model
