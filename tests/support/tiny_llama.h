// A small random model of the Llama kind, written to a folder: sizes that are no multiple of 32 (but for a hidden size
// that the caller asks for), grouped heads, an untied head.
#pragma once

#include <string>
#include <vector>

#include "support/model_files.h"

namespace eadem::testing {

inline void write_tiny_llama(const std::filesystem::path& folder, uint64_t seed = 1, int hidden = 72) {
  constexpr int kHeads = 4, kKvHeads = 2, kHead = 18, kMlp = 104, kLayers = 2, kVocab = 211;
  test::write_file(folder / "config.json",
                   R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":)" +
                       std::to_string(hidden) + "," +
                       R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":18,"intermediate_size":104,)"
                       R"("num_hidden_layers":2,"vocab_size":211,"rms_norm_eps":1e-5,"rope_theta":10000.0,)"
                       R"("max_position_embeddings":2048,"hidden_act":"silu","tie_word_embeddings":false})");
  std::vector<test::TensorSpec> tensors;
  const auto weight = [&](const std::string& name, int rows, int columns) {
    tensors.push_back(test::random_tensor(name, DType::kBF16, {rows, columns}, seed++, 0.35f));
  };
  const auto norm = [&](const std::string& name) {
    std::vector<float> ones(static_cast<size_t>(hidden));
    for (int i = 0; i < hidden; ++i) ones[static_cast<size_t>(i)] = 0.75f + 0.01f * static_cast<float>(i % 50);
    tensors.push_back(test::f32_tensor(name, {hidden}, ones));
  };
  weight("model.embed_tokens.weight", kVocab, hidden);
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    norm(prefix + "input_layernorm.weight");
    weight(prefix + "self_attn.q_proj.weight", kHeads * kHead, hidden);
    weight(prefix + "self_attn.k_proj.weight", kKvHeads * kHead, hidden);
    weight(prefix + "self_attn.v_proj.weight", kKvHeads * kHead, hidden);
    weight(prefix + "self_attn.o_proj.weight", hidden, kHeads * kHead);
    norm(prefix + "post_attention_layernorm.weight");
    weight(prefix + "mlp.gate_proj.weight", kMlp, hidden);
    weight(prefix + "mlp.up_proj.weight", kMlp, hidden);
    weight(prefix + "mlp.down_proj.weight", hidden, kMlp);
  }
  norm("model.norm.weight");
  weight("lm_head.weight", kVocab, hidden);
  test::write_file(folder / "model.safetensors", test::safetensors_bytes(tensors));
}

}  // namespace eadem::testing
