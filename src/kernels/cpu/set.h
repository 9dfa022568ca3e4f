// The table of a vectorised set: every op once, over the Vec of the translation unit that includes this.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rows.h"

namespace eadem::kernels::cpu {
namespace {

constexpr KernelSet cpu_set(std::string_view name, bool (*supported)()) {
  return {
      .name = name,
      .supported = supported,
      .calls = &calls,
      .linear_bytes = linear_bytes,
      .pack_operands = pack_operands,
      .pack_int8 = pack_int8,
      .linear = linear,
      .kv_bytes = nullptr,
      .kv_write = nullptr,
      .kv_read = nullptr,
      .attention_split = nullptr,
      .attention_merge = nullptr,
      .attention_finish = nullptr,
      .rms_norm = rms_norm,
      .split_qkv = split_qkv,
      .swiglu = swiglu,
      .quantise = quantise,
      .log_sum = log_sum,
  };
}

}  // namespace
}  // namespace eadem::kernels::cpu
