// Loading: the same model from either format gives the same bits, and a description that lies is refused by name.
#include <gtest/gtest.h>

#include <cstring>

#include "model/family.h"
#include "model/model.h"
#include "support/tiny_llama.h"

namespace eadem::model {
namespace {

using numerics::Numerics;
using test::TensorSpec;

constexpr int kHidden = 64, kHeads = 4, kKvHeads = 2, kHead = 16, kMlp = 96, kVocab = 50;

struct Names {
  const char *hf, *gguf;
};

// Rows of q and k as GGUF's converter stores them: the halves of each head interleaved.
TensorSpec interleaved(TensorSpec tensor, int heads) {
  const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  std::string bytes;
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < kHead; ++i)
      bytes += tensor.bytes.substr((head * kHead + i / 2 + (i % 2) * kHead / 2) * row, row);
  }
  tensor.bytes = bytes;
  return tensor;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

const char kConfig[] =
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("intermediate_size":96,"num_hidden_layers":1,"vocab_size":50,"rms_norm_eps":1e-5,"rope_theta":10000.0,)"
    R"("max_position_embeddings":256,"hidden_act":"silu","tie_word_embeddings":true})";

// One layer with a tied head, under both formats' names.
void write_models(const std::filesystem::path& folder, const std::string& config = kConfig, bool interleave = true) {
  std::vector<TensorSpec> hf, gguf;
  uint64_t seed = 1;
  const auto add = [&](const char* hf_name, const char* gguf_name, Shape shape, int rope_heads) {
    TensorSpec tensor = shape.size() == 1 ? test::f32_tensor("", shape, std::vector<float>(kHidden, 0.875f))
                                          : test::random_tensor("", DType::kF32, shape, seed++, 0.3f);
    tensor.name = hf_name;
    hf.push_back(tensor);
    if (rope_heads > 0 && interleave) tensor = interleaved(tensor, rope_heads);
    tensor.name = gguf_name;
    gguf.push_back(tensor);
  };
  add("model.embed_tokens.weight", "token_embd.weight", {kVocab, kHidden}, 0);
  add("model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", {kHidden}, 0);
  add("model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", {kHeads * kHead, kHidden}, kHeads);
  add("model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", {kKvHeads * kHead, kHidden}, kKvHeads);
  add("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", {kKvHeads * kHead, kHidden}, 0);
  add("model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", {kHidden, kHeads * kHead}, 0);
  add("model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", {kHidden}, 0);
  add("model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", {kMlp, kHidden}, 0);
  add("model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", {kMlp, kHidden}, 0);
  add("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", {kHidden, kMlp}, 0);
  add("model.norm.weight", "output_norm.weight", {kHidden}, 0);
  test::write_file(folder / "config.json", config);
  test::write_file(folder / "model.safetensors", test::safetensors_bytes(hf));
  const std::vector<std::string> pairs = {test::gguf_pair("general.architecture", std::string("llama")),
                                          test::gguf_pair("llama.embedding_length", uint32_t{kHidden}),
                                          test::gguf_pair("llama.block_count", uint32_t{1}),
                                          test::gguf_pair("llama.attention.head_count", uint32_t{kHeads}),
                                          test::gguf_pair("llama.attention.head_count_kv", uint32_t{kKvHeads}),
                                          test::gguf_pair("llama.feed_forward_length", uint32_t{kMlp}),
                                          test::gguf_pair("llama.attention.layer_norm_rms_epsilon", 1e-5f),
                                          test::gguf_pair("llama.rope.freq_base", 10000.0f),
                                          test::gguf_pair("llama.context_length", uint32_t{256})};
  std::filesystem::create_directory(folder / "gguf");
  test::write_file(folder / "gguf" / "model.gguf", test::gguf_bytes(pairs, gguf));
}

std::vector<float> logits_of(const std::filesystem::path& path, Numerics numerics) {
  auto checkpoint = weights::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  ModelOptions options;
  options.numerics = numerics;
  auto model = Model::load(checkpoint.value(), options);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  auto kv = KvPool::create(*model.value()->options().kernels, model.value()->attention_shape(), 1, 2, nullptr);
  const int32_t table[] = {1, 0};
  Batch batch;
  batch.tables = {table};
  for (int i = 0; i < 70; ++i) batch.rows.push_back({0, i * 7 % kVocab, i});
  batch.outputs = {69};
  model.value()->forward(batch, kv.value());
  std::vector<float> logits(kVocab);
  model.value()->logits(0, 1, logits.data());
  return logits;
}

TEST(Model, EitherFormatGivesTheSameBits) {
  const test::TempDirectory folder;
  write_models(folder.path());
  for (const Numerics numerics : numerics::kAllNumerics) {
    const auto hf = logits_of(folder.path(), numerics),
               gguf = logits_of(folder.path() / "gguf" / "model.gguf", numerics);
    EXPECT_EQ(std::memcmp(hf.data(), gguf.data(), hf.size() * sizeof(float)), 0) << numerics::short_name(numerics);
  }
  // The control: rows of q and k in the other order are another model.
  const test::TempDirectory wrong;
  write_models(wrong.path(), kConfig, false);
  EXPECT_NE(logits_of(wrong.path() / "gguf" / "model.gguf", Numerics::kFma32),
            logits_of(wrong.path(), Numerics::kFma32));
}

std::string load_error(const std::string& config) {
  const test::TempDirectory folder;
  write_models(folder.path(), config);
  auto checkpoint = weights::Checkpoint::open(folder.path());
  if (!checkpoint.ok()) return checkpoint.error().message;
  const auto model = Model::load(checkpoint.value(), {});
  return model.ok() ? "loaded" : model.error().message;
}

TEST(Model, RefusesWhatItCannotRunByName) {
  const std::string config = kConfig;
  EXPECT_EQ(load_error(config), "loaded");
  const std::pair<std::string, std::string> cases[] = {
      {replaced(config, "LlamaForCausalLM", "GPT2LMHeadModel"), "GPT2LMHeadModel"},
      {replaced(config, "\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\""), "gelu"},
      {replaced(config, "\"num_hidden_layers\":1", "\"num_hidden_layers\":2"), "model.layers.1"},
      {replaced(config, "\"num_hidden_layers\":1", "\"num_hidden_layers\":0"), "num_hidden_layers"},
      {replaced(config, "\"vocab_size\":50", "\"vocab_size\":51"), "[51, 64]"},
      {replaced(config, "\"num_key_value_heads\":2", "\"num_key_value_heads\":3"), "3 key/value heads"},
      {replaced(config, "\"rope_theta\":10000.0", "\"rope_theta\":-1"), "rope"},
      {replaced(config, "\"rope_theta\":10000.0", R"("rope_scaling":{"rope_type":"longrope","factor":4.0})"),
       "longrope"},
      {replaced(config, "\"rope_theta\":10000.0", R"("rope_scaling":{"rope_type":"linear","factor":0.0})"), "factor"},
      {replaced(config, "\"hidden_size\":64", "\"hidden_size\":\"many\""), "hidden_size"},
      {replaced(config, "\"hidden_size\":64", "\"hidden_size\":1099511627776"), "hidden_size"},
      {replaced(config, "\"tie_word_embeddings\":true", "\"tie_word_embeddings\":false"), "lm_head.weight"},
      {replaced(config, "\"rms_norm_eps\":1e-5", "\"head_dim\":512"), "head size 512"},
  };
  for (const auto& [text, word] : cases) {
    const std::string message = load_error(text);
    EXPECT_NE(message.find(word), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Model, AWeightThatIsNotANumberIsRefused) {
  const test::TempDirectory folder;
  testing::write_tiny_llama(folder.path());
  auto bytes = [&] {
    std::ifstream file(folder.path() / "model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  bytes[bytes.size() - 2] = '\xc0', bytes[bytes.size() - 1] = '\x7f';  // the last element of lm_head becomes NaN
  test::write_file(folder.path() / "model.safetensors", bytes);
  auto checkpoint = weights::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  const auto model = Model::load(checkpoint.value(), {});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("lm_head.weight"), std::string::npos) << model.error().message;
}

}  // namespace
}  // namespace eadem::model
