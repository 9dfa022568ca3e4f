#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/machine.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"
#include "numerics/version.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  bool json = false, cyclonedx = false;
};

ordered_json kernel_sets() {
  ordered_json sets = ordered_json::array();
  for (const kernels::KernelSet* set : kernels::all_kernel_sets()) {
    sets.push_back(
        {{"name", set->name}, {"supported", set->supported()}, {"used", set == &kernels::best_kernel_set()}});
  }
  return sets;
}

// What --device offers besides cpu.
ordered_json devices() {
  ordered_json found = ordered_json::array();
  const std::string support = kernels::cuda_support();
  std::string reason;
  for (int ordinal = 0; !support.starts_with("none"); ++ordinal) {
    const auto device = kernels::open_cuda_device(ordinal);
    if (!device.ok()) {
      reason = device.error().message;
      break;
    }
    const kernels::DeviceFacts& facts = device.value()->facts();
    found.push_back({{"device", "cuda:" + std::to_string(ordinal)},
                     {"name", facts.name},
                     {"architecture", facts.architecture},
                     {"processors", facts.processors},
                     {"memory_bytes", facts.memory}});
  }
  ordered_json all = {{"support", support}, {"devices", found}};
  if (found.empty() && !reason.empty()) all["reason"] = reason;
  if (!found.empty()) all["free_order"] = kernels::cuda_free_order();
  return all;
}

ordered_json all_numerics() {
  ordered_json names = ordered_json::array();
  for (const auto numerics : numerics::kAllNumerics) names.push_back(numerics::full_name(numerics));
  return names;
}

ordered_json describe(const Engine& engine) {
  const ModelInfo& info = engine.info();
  return {{"path", info.path},
          {"format", info.format},
          {"family", info.family},
          {"numerics", info.numerics},
          {"mode", info.mode},
          {"isa", info.isa},
          {"threads", info.threads},
          {"vocab", info.vocab},
          {"context", info.context},
          {"max_model_len", info.max_model_len},
          {"layers", info.layers},
          {"hidden", info.hidden},
          {"heads", info.heads},
          {"kv_heads", info.kv_heads},
          {"head_size", info.head_size},
          {"weight_bytes", info.weight_bytes},
          {"kv_blocks", info.kv_blocks},
          {"kv_bytes", info.kv_bytes},
          {"eos_token_ids", info.eos_token_ids},
          {"tokenizer", info.has_tokenizer},
          {"chat_template", info.has_chat_template},
          {"fingerprint", engine.identity()},
          {"identity", ordered_json::parse(engine.identity_parts())},
          {"deployment_digest", engine.deployment()},
          {"deployment", ordered_json::parse(engine.deployment_parts())}};
}

std::string plain(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return to_line(value);
  std::string text;
  for (const ordered_json& element : value) text += (text.empty() ? "" : " ") + plain(element);
  return text;
}

void print_fields(const ordered_json& object, const std::string& indent = "  ") {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      std::printf("%s%s\n", indent.c_str(), key.c_str());
      print_fields(value, indent + "  ");
    } else {
      std::printf("%s%-14s  %s\n", indent.c_str(), key.c_str(), plain(value).c_str());
    }
  }
}

void print(const ordered_json& all) {
  std::printf("eadem %s\nmachine\n", plain(all["version"]).c_str());
  print_fields(all["machine"]);
  std::puts("kernel sets");
  for (const ordered_json& set : all["kernel_sets"]) {
    const bool used = set["used"].get<bool>(), supported = set["supported"].get<bool>();
    std::printf("  %-14s  %s\n", plain(set["name"]).c_str(),
                used        ? "used"
                : supported ? "supported"
                            : "not on this machine");
  }
  std::printf("cuda\n  %-14s  %s\n", "support", plain(all["cuda"]["support"]).c_str());
  for (const ordered_json& device : all["cuda"]["devices"]) {
    std::printf("  %-14s  %s\n", plain(device["device"]).c_str(), plain(device["name"]).c_str());
  }
  if (all["cuda"].contains("reason")) std::printf("  %-14s  %s\n", "device", plain(all["cuda"]["reason"]).c_str());
  if (all["cuda"].contains("free_order")) {
    std::printf("  %-14s  %s\n", "free order", plain(all["cuda"]["free_order"]).c_str());
  }
  std::printf("numerics\n  %s\n", plain(all["numerics"]).c_str());
  if (!all.contains("model")) return;
  std::puts("model");
  print_fields(all["model"]);
}

Result<int> run(const Options& options) {
  if (options.cyclonedx) {
    EADEM_ASSIGN_OR_RETURN(const Engine engine, options.engine.open());
    std::puts(engine.bill_of_materials().c_str());
    return 0;
  }
  ordered_json all = {{"version", EADEM_VERSION},
                      {"machine", describe_machine()},
                      {"kernel_sets", kernel_sets()},
                      {"cuda", devices()},
                      {"numerics", all_numerics()},
                      {"default_numerics",
                       "on a device mma16-v1; else int8-v1 where the linear weights are Q8_0, Q4_0 or Q4_1, else "
                       "fma32-v1"}};
  if (options.engine.model_given) {
    EADEM_ASSIGN_OR_RETURN(const Engine engine, options.engine.open());
    all["model"] = describe(engine);
  }
  if (options.json) {
    std::puts(to_line(all).c_str());
  } else {
    print(all);
  }
  return 0;
}

}  // namespace

Run add_info(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.flag("--json", "as a JSON object", &options->json);
  flags.flag("--cyclonedx", "the model, how it is computed, the program and its libraries as a CycloneDX 1.7 document",
             &options->cyclonedx);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
