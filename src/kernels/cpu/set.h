// The table of a vectorised set: every op once, over the Vec of the translation unit that includes this.
#pragma once

#include "kernels/calls.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sampling.h"
#if defined(__AMX_BF16__)
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/linear_tiles.h"
#elif defined(__AVX512BF16__)
#include "kernels/cpu/attention_pairs.h"
#endif

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
      .unpack_row = unpack_row,
#if defined(__AMX_BF16__)
      .linear = tile_linear,
      .fuses_swiglu = tile_fuses_swiglu,
      .linear_swiglu = tile_linear_swiglu,
      .kv_bytes = tile_kv_bytes,
      .kv_write = tile_kv_write,
      .kv_write_rows = tile_kv_write_rows,
      .kv_read = tile_kv_read,
      .attention_split = tile_attention_split,
#else
      .linear = linear,
      .fuses_swiglu = fuses_swiglu,
      .linear_swiglu = linear_swiglu,
      .kv_bytes = kv_bytes,
      .kv_write = kv_write,
      .kv_read = kv_read,
#if defined(__AVX512BF16__)
      .attention_split = pair_attention_split,
#else
      .attention_split = attention_split,
#endif
#endif
      .attention_merge = attention_merge,
      .attention_finish = attention_finish,
      .rms_norm = rms_norm,
      .split_qkv = split_qkv,
      .swiglu = swiglu,
      .quantise = quantise,
      .log_sum = log_sum,
      .top_p_weights = top_p_weights,
      .weight_above = weight_above,
      .weights_between = weights_between,
      .largest = largest,
      .contenders = contenders,
  };
}

}  // namespace
}  // namespace eadem::kernels::cpu
