// The fingerprint of opened engines, field by field: what may move bits moves the identity and nothing else does; what
// is proven to move none moves the deployment and nothing else does.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "contract/deployment.h"
#include "contract/identity.h"
#include "eadem/engine.h"
#include "support/tiny_llama.h"
#include "support/tiny_text.h"

namespace eadem {
namespace {

using nlohmann::ordered_json;
using std::filesystem::path;
using Fields = std::set<std::string>;

struct Print {
  std::string identity, deployment;
  ordered_json identity_parts, deployment_parts;
};

Print print_of(const Engine& engine) {
  return {engine.identity(), engine.deployment(), ordered_json::parse(engine.identity_parts()),
          ordered_json::parse(engine.deployment_parts())};
}

Print print_of(EngineOptions options) {
  auto engine = Engine::open(options);
  if (!engine.ok()) throw std::runtime_error(engine.error().message);
  return print_of(engine.value());
}

Fields changed(const ordered_json& a, const ordered_json& b) {
  Fields fields;
  for (const auto& [key, value] : a.items()) {
    if (b.at(key) != value) fields.insert(key);
  }
  return fields;
}

std::string bytes_of_file(const path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void replace_in(const path& file, const std::string& what, const std::string& by) {
  std::string text = bytes_of_file(file);
  const size_t at = text.find(what);
  if (at == std::string::npos) throw std::runtime_error(file.string() + " has no " + what);
  test::write_file(file, text.replace(at, what.size(), by));
}

struct Model {
  Model() {
    testing::write_tiny_llama(folder.path());
    testing::write_tiny_text(folder.path());
  }
  EngineOptions options(EngineOptions options = {}) const {
    options.model = folder.path().string();
    if (options.threads == 0) options.threads = 1;
    if (options.kv_blocks == 0) options.kv_blocks = 40;  // else their number follows the size of a block
    return options;
  }
  test::TempDirectory folder;
};

class Fingerprint : public ::testing::Test {
 protected:
  // The field that moves, alone, and the digest that moves with it.
  void expect_identity(const Print& other, const Fields& fields, const std::string& what) {
    EXPECT_EQ(changed(base_.identity_parts, other.identity_parts), fields) << what;
    EXPECT_NE(base_.identity, other.identity) << what;
    moved_.insert(fields.begin(), fields.end());
  }
  void expect_deployment(const Print& other, const Fields& fields, const std::string& what) {
    EXPECT_EQ(changed(base_.deployment_parts, other.deployment_parts), fields) << what;
    EXPECT_NE(base_.deployment, other.deployment) << what;
    moved_.insert(fields.begin(), fields.end());
  }
  void expect_same_deployment(const Print& other, const std::string& what) {
    EXPECT_EQ(base_.deployment_parts, other.deployment_parts) << what;
    EXPECT_EQ(base_.deployment, other.deployment) << what;
  }
  void expect_same_identity(const Print& other, const std::string& what) {
    EXPECT_EQ(base_.identity_parts, other.identity_parts) << what;
    EXPECT_EQ(base_.identity, other.identity) << what;
  }

  Model model_;
  Print base_ = print_of(model_.options());
  Fields moved_;
};

TEST_F(Fingerprint, IsTheSameForTheSameModelOpenedTwice) {
  const Print again = print_of(model_.options());
  expect_same_identity(again, "again");
  expect_same_deployment(again, "again");
  const Model copy;
  const Print moved = print_of(copy.options());
  expect_same_identity(moved, "a copy in another folder");
  expect_same_deployment(moved, "a copy in another folder");
}

TEST_F(Fingerprint, EveryChangeOfAModelFileMovesTheIdentityAlone) {
  struct Case {
    const char* what;
    Fields fields;
    std::function<void(const path&)> change;
  };
  const Case cases[] = {
      {"one bit of the last weight",
       {"weights"},
       [](const path& folder) {
         std::string bytes = bytes_of_file(folder / "model.safetensors");
         bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
         test::write_file(folder / "model.safetensors", bytes);
       }},
      {"a constant of the model",
       {"config"},
       [](const path& folder) { replace_in(folder / "config.json", "1e-5", "2e-5"); }},
      {"two merges that change places",
       {"tokenizer"},
       [](const path& folder) { replace_in(folder / "tokenizer.json", R"("a e","a n")", R"("a n","a e")"); }},
      {"one character of the template",
       {"chat_template", "tokenizer"},  // it stands in tokenizer_config.json
       [](const path& folder) { replace_in(folder / "tokenizer_config.json", "assistant", "Assistant"); }},
      {"a template in a file of its own",
       {"chat_template"},
       [](const path& folder) { test::write_file(folder / "chat_template.jinja", "{{ messages[0].content }}"); }},
      {"another token that ends an answer",
       {"end_tokens"},
       [](const path& folder) { replace_in(folder / "generation_config.json", "[1]", "[1,3]"); }},
  };
  for (const Case& one : cases) {
    const Model changed_model;
    one.change(changed_model.folder.path());
    const Print other = print_of(changed_model.options());
    expect_identity(other, one.fields, one.what);
    expect_same_deployment(other, one.what);
  }
  const Print numerics = print_of(model_.options({.numerics = "int8"}));
  expect_identity(numerics, {"numerics"}, "other numerics");
  expect_same_deployment(numerics, "other numerics");
  expect_identity(print_of(model_.options({.chat_template = "{{ messages[0].content }}"})), {"chat_template"},
                  "a template given");
  // What this program cannot be without is moved in the structure: a change of either is another program.
  contract::Identity identity;
  for (std::string contract::Identity::* field : {&contract::Identity::sampler, &contract::Identity::text_libraries}) {
    contract::Identity other;
    other.*field = "another";
    EXPECT_NE(other.digest(), identity.digest());
  }
  moved_.insert({"sampler", "text_libraries"});
  for (const auto& [key, value] : base_.identity_parts.items()) EXPECT_TRUE(moved_.contains(key)) << key;
}

TEST_F(Fingerprint, EveryWayToRunMovesTheDeploymentAlone) {
  const Model drafter;
  struct Case {
    Fields fields;
    EngineOptions options;
  };
  const Case cases[] = {
      {{"isa"}, {.isa = "reference"}},
      {{"threads"}, {.threads = 3}},
      {{"max_batch"}, {.max_batch = 5}},
      {{"prefill_chunk"}, {.prefill_chunk = 40}},
      {{"mixed_chunk"}, {.mixed_chunk = 7}},
      {{"kv_blocks"}, {.kv_blocks = 9}},
      {{"max_model_len"}, {.max_model_len = 2000}},
      {{"prefix_cache"}, {.prefix_cache = false}},
      {{"speculation"}, {.speculation = "ngram"}},
      {{"speculation", "draft_model"}, {.speculation = "draft", .draft_model = drafter.folder.path().string()}},
      {{"max_draft"}, {.max_draft = 3}},
      {{"force_preempt"}, {.force_preempt = 4}},
      {{"force_draft"}, {.force_draft = true}},
      {{"async_scheduling"}, {.async_scheduling = true}},
      {{"kv_hash"}, {.kv_hash = true}},
      {{"trace"}, {.trace_file = (drafter.folder.path() / "trace.jsonl").string()}},
      {{"replica"}, {.replica = "host-7"}},
  };
  for (const Case& one : cases) {
    EngineOptions options = model_.options(one.options);
    const Print other = print_of(options);
    expect_deployment(other, one.fields, *one.fields.begin());
    expect_same_identity(other, *one.fields.begin());
  }
  const Print replica = print_of(model_.options({.replica = "host-7"}));
  EXPECT_EQ(replica.deployment_parts.dump().find("host-7"), std::string::npos) << "a digest of the name, not the name";
  const Print recheck = print_of(model_.options({.recheck_weights = true}));
  expect_same_deployment(recheck, "how the weights were hashed is no fact of the run");
  // The program, the machine and the only device of this build cannot be changed here: in the structure they can.
  Fields still;
  const ordered_json all = contract::Deployment().to_json();
  for (const auto& [key, value] : all.items()) {
    if (!moved_.contains(key)) still.insert(key);
  }
  EXPECT_EQ(still, (Fields{"architecture", "build_flags", "build_type", "commit", "compiler", "cores", "cpu_features",
                           "cpu_model", "cpu_vendor", "device", "libc", "memory_bytes", "os", "os_kernel", "version"}));
}

TEST(Deployment, EveryFieldMovesTheDigest) {
  using contract::Deployment;
  const std::string nothing = Deployment().digest();
  std::set<std::string> digests = {nothing};
  size_t fields = 0;
  for (std::string Deployment::* field :
       {&Deployment::version,      &Deployment::commit,       &Deployment::compiler,     &Deployment::build_type,
        &Deployment::build_flags,  &Deployment::architecture, &Deployment::cpu_vendor,   &Deployment::cpu_model,
        &Deployment::cpu_features, &Deployment::os,           &Deployment::os_kernel,    &Deployment::libc,
        &Deployment::device,       &Deployment::isa,          &Deployment::prefix_cache, &Deployment::async_scheduling,
        &Deployment::force_draft,  &Deployment::speculation,  &Deployment::draft_model,  &Deployment::trace,
        &Deployment::kv_hash,      &Deployment::replica}) {
    Deployment other;
    other.*field = "another";
    EXPECT_TRUE(digests.insert(other.digest()).second) << other.canonical();
    ++fields;
  }
  for (int64_t Deployment::* field :
       {&Deployment::cores, &Deployment::memory_bytes, &Deployment::threads, &Deployment::max_batch,
        &Deployment::prefill_chunk, &Deployment::mixed_chunk, &Deployment::kv_blocks, &Deployment::max_model_len,
        &Deployment::force_preempt, &Deployment::max_draft}) {
    Deployment other;
    other.*field = 7;
    EXPECT_TRUE(digests.insert(other.digest()).second) << other.canonical();
    ++fields;
  }
  EXPECT_EQ(fields, Deployment().to_json().size()) << "a field that this test does not know";
}

TEST_F(Fingerprint, SaysWhatMachineAndProgramItIs) {
  const ordered_json& parts = base_.deployment_parts;
  EXPECT_FALSE(parts["version"].get<std::string>().empty());
  EXPECT_FALSE(parts["commit"].get<std::string>().empty());
  EXPECT_NE(parts["compiler"].get<std::string>().find(' '), std::string::npos) << parts["compiler"];
  EXPECT_GT(parts["cores"].get<int>(), 0);
  EXPECT_GT(parts["memory_bytes"].get<int64_t>(), int64_t{1} << 28);
  EXPECT_EQ(parts["threads"], 1);
  for (const char* field : {"cpu_model", "os", "os_kernel", "architecture"}) {
    EXPECT_FALSE(parts[field].get<std::string>().empty()) << field;
  }
  EXPECT_NE(base_.identity_parts["text_libraries"].get<std::string>().find("tokenizers-"), std::string::npos);
}

TEST_F(Fingerprint, FreeOrderSaysSo) {
  const Print free = print_of(model_.options({.mode = "free"}));
  expect_identity(free, {"numerics"}, "free");
  EXPECT_EQ(free.identity_parts["numerics"], "fma32-free");
  EXPECT_TRUE(free.deployment_parts["isa"].get<std::string>().ends_with("-free"));
  auto engine = Engine::open(model_.options({.mode = "free"}));
  EXPECT_NE(engine.value().bill_of_materials().find("none: sums are taken"), std::string::npos);
}

TEST_F(Fingerprint, TheBillOfMaterialsIsTheSameForTheSameFingerprint) {
  auto engine = Engine::open(model_.options());
  const std::string text = engine.value().bill_of_materials();
  EXPECT_EQ(text, engine.value().bill_of_materials());
  EXPECT_EQ(text, Engine::open(model_.options({.recheck_weights = true})).value().bill_of_materials());
  EXPECT_NE(text, Engine::open(model_.options({.threads = 2})).value().bill_of_materials()) << "the control";
  const ordered_json bom = ordered_json::parse(text);
  EXPECT_EQ(bom["specVersion"], "1.7");
  EXPECT_EQ(bom["components"][0]["hashes"][0]["content"], base_.identity_parts["weights"]);
  EXPECT_EQ(bom["components"][0]["components"][0]["name"], "model.safetensors");
}

}  // namespace
}  // namespace eadem
