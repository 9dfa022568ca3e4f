// Whole models on disk: directories, single files, shards, split files, and what is wrong with paths.
#include "weights/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect_error.h"
#include "support/model_files.h"

namespace eadem::weights {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::gguf_bytes;
using test::gguf_pair;
using test::random_tensor;
using test::safetensors_bytes;
using test::TempDirectory;

constexpr std::string_view kConfig = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8})";

std::string contents(const TensorView& view) { return {reinterpret_cast<const char*>(view.data), view.bytes}; }

Checkpoint open(const fs::path& path) {
  auto result = Checkpoint::open(path);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return std::move(result).value();
}

TEST(Checkpoint, SafetensorsDirectory) {
  const TempDirectory dir;
  const auto a = random_tensor("a", DType::kF32, {2, 8}, 1);
  dir.write("model.safetensors", safetensors_bytes({a}));
  dir.write("config.json", kConfig);
  dir.write("generation_config.json", R"({"eos_token_id": [1, 2]})");
  dir.write("tokenizer.json", "{tok}");
  dir.write("tokenizer_config.json", R"({"chat_template": "from config"})");
  for (const fs::path& path : {dir.path(), dir.path() / "model.safetensors"}) {
    const Checkpoint c = open(path);
    EXPECT_EQ(c.format(), Checkpoint::Format::safetensors);
    ASSERT_NE(c.find("a"), nullptr);
    EXPECT_EQ(contents(*c.find("a")), a.bytes);
    EXPECT_EQ(c.find("b"), nullptr);
    EXPECT_EQ(c.metadata().get<int64_t>("hidden_size").value(), 8);
    EXPECT_EQ(c.generation().get<std::vector<int64_t>>("eos_token_id").value(), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(c.text().tokenizer_json, "{tok}");
    EXPECT_EQ(c.text().chat_template, "from config");
    EXPECT_EQ(c.files().size(), 1u);
    c.release(*c.find("a"));
    EXPECT_EQ(contents(*c.find("a")), a.bytes);  // released bytes are read again
  }
}

TEST(Checkpoint, ViewsOutliveAMove) {
  const TempDirectory dir;
  const auto a = random_tensor("a", DType::kF32, {2, 8}, 1);
  const fs::path path = dir.write("m.gguf", gguf_bytes({}, {a}));
  Checkpoint first = open(path);
  const Checkpoint second = std::move(first);
  EXPECT_EQ(contents(*second.find("a")), a.bytes);
}

TEST(Checkpoint, ChatTemplatesByPrecedence) {
  const TempDirectory dir;
  dir.write("model.safetensors", safetensors_bytes({random_tensor("a", DType::kF32, {8}, 1)}));
  dir.write("config.json", kConfig);
  EXPECT_FALSE(open(dir.path()).text().chat_template);
  EXPECT_TRUE(open(dir.path()).generation().empty());
  dir.write("tokenizer_config.json",
            R"({"chat_template": [{"name": "tool", "template": "T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(open(dir.path()).text().chat_template, "D");
  dir.write("chat_template.jinja", "from jinja");
  EXPECT_EQ(open(dir.path()).text().chat_template, "from jinja");
  fs::remove(dir.path() / "chat_template.jinja");
  for (const char* lie :
       {R"({"chat_template": 3})", R"({"chat_template": [3]})", R"({"chat_template": [{"name": "default"}]})"}) {
    dir.write("tokenizer_config.json", lie);
    expect_error(Checkpoint::open(dir.path()), {"tokenizer_config.json", "chat_template"});
  }
}

TEST(Checkpoint, ShardedSafetensors) {
  const TempDirectory dir;
  const auto a = random_tensor("a", DType::kF32, {8}, 1);
  const auto b = random_tensor("b", DType::kBF16, {4, 4}, 2);
  dir.write("config.json", kConfig);
  dir.write("m-1.safetensors", safetensors_bytes({a}));
  dir.write("m-2.safetensors", safetensors_bytes({b}));
  expect_error(Checkpoint::open(dir.path()), {"several safetensors files", "'m-1.safetensors'", "index"});
  dir.write("model.safetensors.index.json", R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  for (const fs::path& path : {dir.path(), dir.path() / "m-2.safetensors"}) {
    const Checkpoint c = open(path);
    EXPECT_EQ(c.files().size(), 2u);
    EXPECT_EQ(contents(*c.find("a")), a.bytes);
    EXPECT_EQ(contents(*c.find("b")), b.bytes);
  }
  const std::pair<const char*, std::vector<std::string_view>> lies[] = {
      {R"({"weight_map": {"a": "m-1.safetensors", "b": "m-3.safetensors"}})", {"m-3.safetensors", "no such file"}},
      {R"({"weight_map": {"a": "m-1.safetensors", "c": "m-2.safetensors"}})", {"'b'", "different revisions"}},
      {R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors"}})",
       {"'c'", "does not hold it"}},
      {R"({"weight_map": {"a": "m-2.safetensors", "b": "m-2.safetensors"}})", {"'a'", "does not hold it"}},
  };
  for (const auto& [index, words] : lies) {
    dir.write("model.safetensors.index.json", index);
    expect_error(Checkpoint::open(dir.path()), words);
  }
  dir.write("m-2.safetensors", safetensors_bytes({a}));
  dir.write("model.safetensors.index.json", R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  expect_error(Checkpoint::open(dir.path()), {"'a'", "different revisions"});
}

TEST(Checkpoint, OneSafetensorsFileOfAnyName) {
  const TempDirectory dir;
  dir.write("config.json", kConfig);
  dir.write("custom.safetensors", safetensors_bytes({random_tensor("a", DType::kF32, {8}, 1)}));
  EXPECT_NE(open(dir.path()).find("a"), nullptr);
  dir.write("other.safetensors", safetensors_bytes({random_tensor("o", DType::kF32, {8}, 1)}));
  EXPECT_NE(open(dir.path() / "other.safetensors").find("o"), nullptr);
}

std::vector<std::string> split_pairs(uint16_t number, uint16_t count, int32_t tensors) {
  return {gguf_pair("split.no", number), gguf_pair("split.count", count), gguf_pair("split.tensors.count", tensors),
          gguf_pair("general.name", "part " + std::to_string(number))};
}

TEST(Checkpoint, SplitGguf) {
  const TempDirectory dir;
  const auto a = random_tensor("a", DType::kQ8_0, {2, 32}, 1);
  const auto b = random_tensor("b", DType::kF32, {8}, 2);
  const fs::path first = dir.write("m-00001-of-00002.gguf", gguf_bytes(split_pairs(0, 2, 2), {a}));
  expect_error(Checkpoint::open(first), {"m-00002-of-00002.gguf", "no such file"});
  const fs::path second = dir.write("m-00002-of-00002.gguf", gguf_bytes(split_pairs(1, 2, 2), {b}));
  for (const fs::path& path : {first, second, dir.path()}) {
    const Checkpoint c = open(path);
    EXPECT_EQ(c.format(), Checkpoint::Format::gguf);
    EXPECT_EQ(c.files().size(), 2u);
    EXPECT_EQ(contents(*c.find("a")), a.bytes);
    EXPECT_EQ(contents(*c.find("b")), b.bytes);
    EXPECT_EQ(c.metadata().get<std::string>("general.name").value(), "part 0");
    c.release(*c.find("b"));
    EXPECT_EQ(contents(*c.find("b")), b.bytes);
  }
  const auto refuse_second = [&](const std::string& bytes, std::vector<std::string_view> words) {
    test::write_file(second, bytes);
    expect_error(Checkpoint::open(first), words);
  };
  refuse_second(gguf_bytes(split_pairs(0, 2, 2), {b}), {"m-00002-of-00002.gguf", "not part 1"});
  refuse_second(gguf_bytes(split_pairs(1, 3, 2), {b}), {"of 3"});
  refuse_second(gguf_bytes({}, {b}), {"'split.count'", "missing"});
  refuse_second(gguf_bytes(split_pairs(1, 2, 2), {a}), {"'a'", "another file"});
  refuse_second(gguf_bytes(split_pairs(1, 2, 2), {}), {"promises 2 tensors", "hold 1"});
  const fs::path renamed = dir.write("renamed.gguf", gguf_bytes(split_pairs(0, 2, 2), {a}));
  expect_error(Checkpoint::open(renamed), {"renamed.gguf", "part of a model of 2 files", "rename"});
  expect_error(Checkpoint::open(dir.path()), {"several GGUF models", "name one of the files"});
}

TEST(Checkpoint, GgufTextAssets) {
  const TempDirectory dir;
  const auto a = random_tensor("a", DType::kF32, {8}, 1);
  const fs::path path = dir.write("m.gguf", gguf_bytes({gguf_pair("tokenizer.chat_template", std::string("G"))}, {a}));
  dir.write("tokenizer.json", "not read");
  dir.write("generation_config.json", "not read");
  for (const fs::path& named : {path, dir.path()}) {
    const Checkpoint c = open(named);
    EXPECT_EQ(c.text().chat_template, "G");
    EXPECT_FALSE(c.text().tokenizer_json);
    EXPECT_TRUE(c.generation().empty());
  }
  dir.write("m.gguf", gguf_bytes({gguf_pair("tokenizer.chat_template", true)}, {a}));
  expect_error(Checkpoint::open(path), {"'tokenizer.chat_template'", "a string"});
  dir.write("m.gguf", gguf_bytes({}, {}));
  expect_error(Checkpoint::open(path), {"no tensors"});
}

TEST(Checkpoint, PathsThatAreNoModel) {
  const TempDirectory dir;
  expect_error(Checkpoint::open(dir.path() / "absent"), {"absent", "no such file or directory"});
  expect_error(Checkpoint::open(""), {"no such file or directory"});
  expect_error(Checkpoint::open(dir.path()), {"holds no model"});
  expect_error(Checkpoint::open(dir.write("model.bin", "x")), {"neither a .gguf nor a .safetensors"});
  expect_error(Checkpoint::open(dir.write("empty.gguf", "")), {"empty.gguf", "is empty (0 bytes)"});
  fs::create_directory(dir.path() / "d.gguf");
  expect_error(Checkpoint::open(dir.path() / "d.gguf"), {"d.gguf", "holds no model"});
  fs::create_symlink("loop2.gguf", dir.path() / "loop1.gguf");
  fs::create_symlink("loop1.gguf", dir.path() / "loop2.gguf");
  expect_error(Checkpoint::open(dir.path() / "loop1.gguf"), {"loop1.gguf", "symbolic links"});
  fs::create_symlink("nowhere", dir.path() / "dangling.gguf");
  expect_error(Checkpoint::open(dir.path() / "dangling.gguf"), {"dangling.gguf", "no such file"});
  ASSERT_EQ(::mkfifo((dir.path() / "pipe.gguf").c_str(), 0600), 0);
  expect_error(Checkpoint::open(dir.path() / "pipe.gguf"), {"pipe.gguf", "neither a file nor a directory"});
  expect_error(Checkpoint::open(dir.path() / "model.bin" / "x.gguf"), {"x.gguf", "no such file"});
}

TEST(Checkpoint, FilesOfADirectoryThatAreNotFiles) {
  const TempDirectory dir;
  dir.write("model.safetensors", safetensors_bytes({random_tensor("a", DType::kF32, {8}, 1)}));
  expect_error(Checkpoint::open(dir.path()), {"config.json", "is missing"});
  dir.write("config.json", "");
  expect_error(Checkpoint::open(dir.path()), {"config.json", "empty"});
  fs::resize_file(dir.path() / "config.json", (16 << 20) + 1);  // sparse
  expect_error(Checkpoint::open(dir.path()), {"config.json", "above the limit"});
  dir.write("config.json", kConfig);
  dir.write("generation_config.json", "{");
  expect_error(Checkpoint::open(dir.path()), {"generation_config.json", "not valid JSON"});
  fs::remove(dir.path() / "generation_config.json");
  fs::create_directory(dir.path() / "tokenizer.json");
  expect_error(Checkpoint::open(dir.path()), {"tokenizer.json", "is a directory"});
  fs::remove(dir.path() / "tokenizer.json");
  fs::remove(dir.path() / "model.safetensors");
  fs::create_directory(dir.path() / "model.safetensors");
  expect_error(Checkpoint::open(dir.path()), {"model.safetensors", "is a directory"});
  dir.write("x.gguf", gguf_bytes({}, {}));
  expect_error(Checkpoint::open(dir.path()), {"both safetensors and GGUF"});
}

TEST(Checkpoint, PermissionDenied) {
  const TempDirectory dir;
  const fs::path path = dir.write("m.gguf", gguf_bytes({}, {random_tensor("a", DType::kF32, {8}, 1)}));
  fs::permissions(path, fs::perms::none);
  // Root may read everything, so the test goes on as nobody.
  const bool root = ::geteuid() == 0;
  if (root) {
    fs::permissions(dir.path(), fs::perms::others_exec, fs::perm_options::add);
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto result = Checkpoint::open(path);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  expect_error(result, {"m.gguf", "Permission denied"});
}

}  // namespace
}  // namespace eadem::weights
