// A kernel set with the few entries that the sampler and a stand-in model need, written out literally.
#pragma once

#include <cstring>
#include <limits>
#include <vector>

#include "kernels/kernel_set.h"
#include "numerics/math.h"
#include "numerics/rng.h"
#include "numerics/vector_sum.h"

namespace eadem::testing {

inline kernels::LogSum plain_log_sum(const float* logits, int n) {
  float max = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < n; ++i) {
    if (logits[i] != logits[i]) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
    if (logits[i] > max) max = logits[i];
  }
  max += 0.0f;  // +0 for either zero
  std::vector<float> terms(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) terms[static_cast<size_t>(i)] = numerics::exp32(logits[i] - max);
  return {max, numerics::vector_sum(terms.data(), n)};
}

// KV blocks as plain arrays [64][2][head_size] of operands.
inline const kernels::KernelSet& plain_kernels() {
  static const kernels::KernelSet set = [] {
    kernels::KernelSet s{};
    s.name = "plain";
    s.supported = [] { return true; };
    s.log_sum = plain_log_sum;
    s.top_p_weights = [](const float* logits, int n, float max, float* weights) {
      uint64_t total = 0;
      for (int i = 0; i < n; ++i) {
        weights[i] = __builtin_rintf(numerics::exp32(logits[i] - max) * 0x1p31f);
        total += static_cast<uint64_t>(weights[i]);
      }
      return total;
    };
    s.weight_above = [](const float* weights, int n, float least) {
      uint64_t total = 0;
      for (int i = 0; i < n; ++i) total += weights[i] >= least ? static_cast<uint64_t>(weights[i]) : 0;
      return total;
    };
    s.weights_between = [](const float* weights, int begin, int end, float low, float high, int32_t* places) {
      int count = 0;
      for (int i = begin; i < end; ++i) {
        if (weights[i] >= low && weights[i] < high) places[count++] = i;
      }
      return count;
    };
    s.largest = [](const float* logits, int n) {
      kernels::Largest result{logits[0], 0, false};
      for (int i = 0; i < n; ++i) {
        if (logits[i] > result.logit) result.logit = logits[i], result.token = i;
        result.nan |= logits[i] != logits[i];
      }
      result.logit += 0.0f;
      return result;
    };
    s.contenders = [](const kernels::RaceCall& call, int begin, int end, int32_t* tokens, uint32_t* words) {
      int count = 0;
      for (int i = begin; i < end; ++i) {
        if (call.logits[i] < call.least) continue;
        tokens[count] = i;
        words[count++] = numerics::token_word(call.seed, static_cast<uint32_t>(i), call.position);
      }
      return count;
    };
    s.kv_bytes = [](const kernels::AttentionShape& shape) {
      return (static_cast<size_t>(shape.head_size) * 64 * 2 * sizeof(uint16_t) + 63) / 64 * 64;
    };
    s.kv_write = [](const kernels::AttentionShape& shape, std::byte* block, int slot, const uint16_t* k,
                    const uint16_t* v) {
      const size_t bytes = static_cast<size_t>(shape.head_size) * sizeof(uint16_t);
      std::memcpy(block + static_cast<size_t>(slot) * 2 * bytes, k, bytes);
      std::memcpy(block + static_cast<size_t>(slot) * 2 * bytes + bytes, v, bytes);
    };
    s.kv_read = [](const kernels::AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
      const size_t bytes = static_cast<size_t>(shape.head_size) * sizeof(uint16_t);
      std::memcpy(k, block + static_cast<size_t>(slot) * 2 * bytes, bytes);
      std::memcpy(v, block + static_cast<size_t>(slot) * 2 * bytes + bytes, bytes);
    };
    return s;
  }();
  return set;
}

}  // namespace eadem::testing
