// The other half of a fingerprint: everything that is proven to move no bit of an answer, told so that a difference
// under equal identity, which would be a bug, can be traced. docs/fingerprint.md says of each field why it may not
// move bits and which test holds it to that.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace eadem::contract {

// Strings and integers alone; "on" and "off" for what is either.
struct Deployment {
  // The program
  std::string version, commit, compiler, build_type, build_flags;
  // The machine
  std::string architecture, cpu_vendor, cpu_model, cpu_features, os, os_kernel, libc;
  int64_t cores = 0, memory_bytes = 0;
  // Where the model runs
  std::string device, isa;  // isa: the kernel set in use
  int64_t threads = 0;
  // How work is cut up
  int64_t max_batch = 0, prefill_chunk = 0, mixed_chunk = 0, kv_blocks = 0, max_model_len = 0, force_preempt = 0;
  std::string prefix_cache, async_scheduling, force_draft;
  std::string speculation, draft_model;  // draft_model: the digest of its weights; empty: none
  int64_t max_draft = 0;
  // What watches
  std::string trace, kv_hash;
  std::string replica;  // BLAKE3 of the name that the operator gave; empty: none was given

  nlohmann::ordered_json to_json() const;
  // RFC 8785 JSON of the fields, and BLAKE3 over it: 64 hexadecimal digits.
  std::string canonical() const;
  std::string digest() const;
};

// The program and the machine; what the engine knows is left empty.
Deployment deployment_here();

}  // namespace eadem::contract
