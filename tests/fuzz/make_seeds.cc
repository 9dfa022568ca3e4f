// Writes the seeds of the model-file fuzzers: make_seeds DIRECTORY makes DIRECTORY/{safetensors,gguf,config}/. Seeds
// are small whole files of every kind, so that mutations begin behind the first checks.
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/model_files.h"

namespace {

namespace fs = std::filesystem;
using eadem::DType;
using eadem::test::gguf_bytes;
using eadem::test::gguf_pair;
using eadem::test::random_tensor;
using eadem::test::safetensors_bytes;
using eadem::test::write_file;

void write_safetensors(const fs::path& out) {
  const auto a = random_tensor("a", DType::kF32, {2, 3}, 1);
  const auto b = random_tensor("b.weight", DType::kBF16, {4}, 2);
  const auto c = random_tensor("c", DType::kF16, {1, 2, 2}, 3);
  write_file(out / "one", safetensors_bytes({a}));
  write_file(out / "three", safetensors_bytes({a, b, c}));
  write_file(out / "header", R"({"x":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}}          )");
  write_file(out / "header_two",
             R"({"__metadata__":{"format":"pt"},"x":{"dtype":"BF16","shape":[16],"data_offsets":[0,32]},)"
             R"("y":{"dtype":"U8","shape":[],"data_offsets":[32,33]},)"
             R"("z":{"dtype":"U8","shape":[31],"data_offsets":[33,64]}})");
  write_file(out / "index", R"({"metadata":{"total_size":64},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
}

void write_gguf(const fs::path& out) {
  const std::vector<std::string> pairs = {gguf_pair("general.architecture", std::string("llama")),
                                          gguf_pair("general.alignment", uint32_t{32}),
                                          gguf_pair("llama.block_count", uint32_t{2}),
                                          gguf_pair("llama.rope.freq_base", 10000.0f),
                                          gguf_pair("flag", true),
                                          gguf_pair("big", uint64_t{1} << 63),
                                          gguf_pair("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "bc"}),
                                          gguf_pair("tokenizer.ggml.scores", std::vector<float>{0, -1, 2}),
                                          gguf_pair("tokenizer.ggml.token_type", std::vector<int32_t>{1, 3})};
  write_file(out / "metadata", gguf_bytes(pairs, {}));
  write_file(out / "pair", gguf_bytes({pairs[0]}, {random_tensor("a", DType::kF32, {2, 3}, 1),
                                                   random_tensor("b", DType::kF16, {4}, 2)}));
  for (const DType dtype : {DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    write_file(out / std::string(info(dtype).name),
               gguf_bytes({pairs[1]}, {random_tensor("w", dtype, {1, info(dtype).block}, 3)}));
  }
}

void write_config(const fs::path& out) {
  write_file(out / "llama",
             R"({"architectures":["LlamaForCausalLM"],"eos_token_id":[1,2],"hidden_size":576,"rms_norm_eps":1e-05,)"
             R"("rope_scaling":{"factor":8.0,"rope_type":"llama3"},"tie_word_embeddings":true,"pad":null})");
  write_file(out / "nested", R"({"a":{"b":[[1,2.5],{"c":"\u00e9\ud83d\ude00"},true,[]]},"":-9223372036854775808})");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_seeds DIRECTORY\n");
    return 2;
  }
  const fs::path root = arguments[1];
  for (const std::string_view name : {"safetensors", "gguf", "config"}) fs::create_directories(root / name);
  write_safetensors(root / "safetensors");
  write_gguf(root / "gguf");
  write_config(root / "config");
  return 0;
}
