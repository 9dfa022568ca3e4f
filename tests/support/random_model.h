// Random models of any shape, written to a folder as safetensors.
#pragma once

#include <string>
#include <vector>

#include "support/model_files.h"

namespace eadem::testing {

struct RandomShape {
  std::string name;              // for people
  std::string family = "llama";  // llama, qwen2 or qwen3
  int layers = 2, hidden = 72, heads = 4, kv_heads = 2, head_size = 18, intermediate = 104, vocab = 211;
  int context = 2048, window = 0;
  bool tied = false;
  DType dtype = DType::kBF16;
};

// Values as a trained model has them: what a layer adds is about as large as what it reads.
inline void write_random_model(const std::filesystem::path& folder, const RandomShape& s, uint64_t seed = 1) {
  const bool qwen3 = s.family == "qwen3", qwen2 = s.family == "qwen2";
  const std::string architecture = qwen3 ? "Qwen3ForCausalLM" : qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM";
  const auto field = [](const char* name, int value) {
    return "\"" + std::string(name) + "\":" + std::to_string(value) + ",";
  };
  test::write_file(folder / "config.json",
                   R"({"architectures":[")" + architecture + R"("],"model_type":")" + s.family + "\"," +
                       field("hidden_size", s.hidden) + field("num_attention_heads", s.heads) +
                       field("num_key_value_heads", s.kv_heads) + field("head_dim", s.head_size) +
                       field("intermediate_size", s.intermediate) + field("num_hidden_layers", s.layers) +
                       field("vocab_size", s.vocab) + field("max_position_embeddings", s.context) +
                       R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":)" +
                       (s.tied ? "true}" : "false}"));
  std::vector<test::TensorSpec> tensors;
  const auto weight = [&](const std::string& name, int rows, int columns, float gain) {
    const float spread = gain * std::sqrt(3.0f / static_cast<float>(columns));
    tensors.push_back(test::random_tensor(name, s.dtype, {rows, columns}, seed++, spread));
  };
  const auto norm = [&](const std::string& name, int size) {
    std::vector<float> values(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) values[static_cast<size_t>(i)] = 0.75f + 0.01f * static_cast<float>(i % 50);
    tensors.push_back(test::f32_tensor(name, {size}, values));
  };
  const auto bias = [&](const std::string& name, int size) {
    tensors.push_back(test::random_tensor(name, DType::kF32, {size}, seed++, 0.1f));
  };
  weight("model.embed_tokens.weight", s.vocab, s.hidden, std::sqrt(static_cast<float>(s.hidden)));
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".", attention = prefix + "self_attn.";
    norm(prefix + "input_layernorm.weight", s.hidden);
    weight(attention + "q_proj.weight", s.heads * s.head_size, s.hidden, 1.5f);
    weight(attention + "k_proj.weight", s.kv_heads * s.head_size, s.hidden, 1.5f);
    weight(attention + "v_proj.weight", s.kv_heads * s.head_size, s.hidden, 1.0f);
    weight(attention + "o_proj.weight", s.hidden, s.heads * s.head_size, 1.0f);
    if (qwen2) {
      bias(attention + "q_proj.bias", s.heads * s.head_size);
      bias(attention + "k_proj.bias", s.kv_heads * s.head_size);
      bias(attention + "v_proj.bias", s.kv_heads * s.head_size);
    }
    if (qwen3) norm(attention + "q_norm.weight", s.head_size), norm(attention + "k_norm.weight", s.head_size);
    norm(prefix + "post_attention_layernorm.weight", s.hidden);
    weight(prefix + "mlp.gate_proj.weight", s.intermediate, s.hidden, 1.0f);
    weight(prefix + "mlp.up_proj.weight", s.intermediate, s.hidden, 1.0f);
    weight(prefix + "mlp.down_proj.weight", s.hidden, s.intermediate, 1.0f);
  }
  norm("model.norm.weight", s.hidden);
  if (!s.tied) weight("lm_head.weight", s.vocab, s.hidden, 3.0f);
  test::write_file(folder / "model.safetensors", test::safetensors_bytes(tensors));
}

}  // namespace eadem::testing
