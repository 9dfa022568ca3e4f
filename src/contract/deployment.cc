#include "contract/deployment.h"

#include <nlohmann/json.hpp>

#include "contract/build_info.h"
#include "contract/canonical_json.h"
#include "contract/machine.h"
#include "core/check.h"

namespace eadem::contract {
namespace {

// Text of the machine may be anything; what is no UTF-8 becomes question marks.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text;
}

}  // namespace

nlohmann::ordered_json Deployment::to_json() const {
  return {{"version", version},
          {"commit", commit},
          {"compiler", compiler},
          {"build_type", build_type},
          {"build_flags", build_flags},
          {"architecture", architecture},
          {"cpu_vendor", cpu_vendor},
          {"cpu_model", cpu_model},
          {"cpu_features", cpu_features},
          {"cores", cores},
          {"memory_bytes", memory_bytes},
          {"os", os},
          {"os_kernel", os_kernel},
          {"libc", libc},
          {"device", device},
          {"isa", isa},
          {"threads", threads},
          {"max_batch", max_batch},
          {"prefill_chunk", prefill_chunk},
          {"mixed_chunk", mixed_chunk},
          {"kv_blocks", kv_blocks},
          {"max_model_len", max_model_len},
          {"force_preempt", force_preempt},
          {"prefix_cache", prefix_cache},
          {"async_scheduling", async_scheduling},
          {"speculation", speculation},
          {"draft_model", draft_model},
          {"max_draft", max_draft},
          {"force_draft", force_draft},
          {"trace", trace},
          {"kv_hash", kv_hash},
          {"replica", replica}};
}

std::string Deployment::canonical() const {
  auto text = canonical_json(to_json());
  EADEM_CHECK(text.ok());  // strings of plain characters and integers of a machine
  return std::move(text).value();
}

std::string Deployment::digest() const { return canonical_digest(canonical()); }

Deployment deployment_here() {
  const BuildInfo& build = build_info();
  const Machine machine = this_machine();
  Deployment here;
  here.version = build.version;
  here.commit = build.commit;
  here.compiler = build.compiler;
  here.build_type = build.build_type;
  here.build_flags = printable(std::string(build.flags));
  here.architecture = printable(machine.architecture);
  here.cpu_vendor = printable(machine.cpu_vendor);
  here.cpu_model = printable(machine.cpu_model);
  for (const std::string& feature : machine.features) {
    here.cpu_features += (here.cpu_features.empty() ? "" : " ") + feature;
  }
  here.cores = machine.cores;
  here.memory_bytes = static_cast<int64_t>(machine.memory_bytes);
  here.os = printable(machine.os);
  here.os_kernel = printable(machine.kernel);
  here.libc = machine.libc;
  return here;
}

}  // namespace eadem::contract
