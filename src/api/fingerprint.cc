#include "api/fingerprint.h"

#include <filesystem>

#include "contract/canonical_json.h"

namespace eadem::api {

contract::Deployment deployment_of(const EngineOptions& options, const ModelInfo& info) {
  const auto on_off = [](bool value) { return value ? "on" : "off"; };
  contract::Deployment deployment = contract::deployment_here();
  deployment.device = options.device;
  deployment.isa = info.isa;
  deployment.threads = info.threads;
  deployment.max_batch = options.max_batch;
  deployment.prefill_chunk = options.prefill_chunk;
  deployment.mixed_chunk = options.mixed_chunk;
  deployment.kv_blocks = info.kv_blocks;
  deployment.max_model_len = info.max_model_len;
  deployment.force_preempt = options.force_preempt;
  deployment.prefix_cache = on_off(options.prefix_cache);
  deployment.async_scheduling = on_off(options.async_scheduling && options.trace_file.empty());
  deployment.speculation = options.speculation;
  deployment.max_draft = options.max_draft;
  deployment.force_draft = on_off(options.force_draft);
  deployment.trace = on_off(!options.trace_file.empty());
  deployment.kv_hash = on_off(options.kv_hash);
  if (!options.replica.empty()) deployment.replica = contract::canonical_digest(options.replica);
  return deployment;
}

std::string device_name(const std::string& asked, const kernels::DeviceFacts& facts) {
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  return asked + ": " + facts.name + ", " + facts.architecture + ", driver for CUDA " + version(facts.driver) +
         ", runtime " + version(facts.runtime);
}

contract::BomModel bom_model_of(const ModelInfo& info, const weights::Metadata& metadata) {
  const auto stated = [&](std::string_view key) {
    const auto value = metadata.get<std::string>(key);
    return value.ok() ? value.value() : std::string();
  };
  contract::BomModel model;
  model.name = stated("general.name");
  if (model.name.empty()) model.name = std::filesystem::path(info.path).filename().string();
  model.family = info.family;
  model.licence = stated("general.license");
  model.facts = {{"format", info.format},
                 {"layers", std::to_string(info.layers)},
                 {"hidden", std::to_string(info.hidden)},
                 {"heads", std::to_string(info.heads)},
                 {"kv_heads", std::to_string(info.kv_heads)},
                 {"vocabulary", std::to_string(info.vocab)},
                 {"context", std::to_string(info.context)}};
  return model;
}

}  // namespace eadem::api
