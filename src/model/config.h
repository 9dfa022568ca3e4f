// What a transformer of the Llama kind is: sizes and the few switches in which its families differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace eadem::model {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

struct RopeConfig {
  double theta = 10000.0;
  int rotary = 0;  // leading elements of a head that are rotated
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double attention_factor = 1.0;                         // yarn: multiplies cos and sin
  int64_t original_context = 0;                          // llama3, yarn
  std::vector<double> frequency_factors;  // GGUF's rope_freqs.weight: divides each frequency; empty: none
};

struct ModelConfig {
  std::string family;  // "llama", "mistral", "qwen2", "qwen3"
  int64_t vocab = 0;
  int hidden = 0;
  int layers = 0;
  int heads = 0, kv_heads = 0;
  int head_size = 0;  // <= 256
  int intermediate = 0;
  float norm_eps = 1e-5f;
  int64_t context = 0;  // positions the model was made for
  int64_t window = 0;   // sliding window of attention; 0: none
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool qk_norm = false;
  bool tied_head = false;  // the head is the embedding table
  RopeConfig rope;
};

}  // namespace eadem::model
