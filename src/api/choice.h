// What an engine computes with: numerics, kernel set, device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "eadem/engine.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"
#include "numerics/version.h"
#include "weights/checkpoint.h"

namespace eadem::api {

struct Choice {
  numerics::Numerics numerics;
  const kernels::KernelSet* kernels;
  std::shared_ptr<kernels::Device> device = nullptr;  // null: this machine

  // The set in use.
  const kernels::KernelSet& set() const { return device != nullptr ? device->packing() : *kernels; }
  bool is_free() const { return set().free_order; }
  uint64_t calls() const { return device != nullptr ? device->calls() : kernels->calls->load(); }
  std::string numerics_name() const {
    if (is_free()) return std::string(numerics::short_name(numerics)) + "-free";
    return std::string(numerics::full_name(numerics));
  }
};

// From the options' numerics, mode, device and isa. Errors name the option and what it may be.
Result<Choice> choose(const EngineOptions& options, const weights::Checkpoint& checkpoint);

}  // namespace eadem::api
