// A running hash over the steps of an answer. Whoever computes the answer again finds the first step that differs by
// comparing 8 bytes a step; no logits and no logprobs are kept.
//
//   H(0) = BLAKE3("eadem-steps-v1")
//   H(i) = BLAKE3(H(i-1), position, token, logprob, k, k times (token, logprob))  all numbers in 4 bytes, little-endian
//
// A step is a token at its absolute position with its logprob (bits of the float32; every NaN is 0x7fc00000) and
// the k most likely tokens, where the request asked for those. Of H(i) the first 8 bytes are kept, of the last all 32.
// Two chains that agree in the last H agree in every step. That a step differs and its 8 bytes do not has a chance of
// 2^-64; the difference is then found one step later.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "contract/base64.h"
#include "eadem/result.h"
#include "text/blake3.h"

namespace eadem::contract {

class LogprobChain {
 public:
  LogprobChain() {
    text::Blake3 hash;
    hash.update("eadem-steps-v1");
    state_ = hash.digest();
  }

  void add(int64_t position, const SampledToken& step) {
    std::vector<uint32_t> record = {static_cast<uint32_t>(position), static_cast<uint32_t>(step.token),
                                    bits(step.logprob), static_cast<uint32_t>(step.top.size())};
    for (const TokenLogprob& other : step.top) {
      record.insert(record.end(), {static_cast<uint32_t>(other.token), bits(other.logprob)});
    }
    text::Blake3 hash;
    hash.update(state_.data(), state_.size());
    for (const uint32_t word : record) {
      const uint8_t bytes[4] = {static_cast<uint8_t>(word), static_cast<uint8_t>(word >> 8),
                                static_cast<uint8_t>(word >> 16), static_cast<uint8_t>(word >> 24)};
      hash.update(bytes, sizeof bytes);
    }
    state_ = hash.digest();
    uint64_t head = 0;
    for (int i = 0; i < 8; ++i) head = head << 8 | state_[static_cast<size_t>(i)];
    heads_.push_back(head);
  }

  // After each step: the first 8 bytes of H, the first of them the most significant.
  const std::vector<uint64_t>& heads() const { return heads_; }
  // The last H: 64 hexadecimal digits.
  std::string digest() const { return to_hex({reinterpret_cast<const char*>(state_.data()), state_.size()}); }

 private:
  static uint32_t bits(float value) { return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value); }

  text::Blake3::Digest state_;
  std::vector<uint64_t> heads_;
};

}  // namespace eadem::contract
