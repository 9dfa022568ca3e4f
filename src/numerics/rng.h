// Random numbers of the sampler: a counter-based generator, so that a draw is a function of (seed, position, token)
// alone.
//
// Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. SplitMix64:
// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
#pragma once

#include <cstdint>

#include "numerics/math.h"

namespace eadem::numerics {

/// What a draw is for: the last word of the counter. Values are part of the contract; new purposes are added, none is
/// changed.
enum class Purpose : std::uint32_t {
  kToken = 0,  // the noise of the token drawn at a position
};

/// Four random words.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// Philox4x32 with ten rounds. The key's low word is the low half of the seed.
EADEM_FN PhiloxBlock philox4x32_10(std::uint64_t seed, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                   std::uint32_t c3) {
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(c0) * 0xD2511F53u;
    const std::uint64_t p1 = static_cast<std::uint64_t>(c2) * 0xCD9E8D57u;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The four words of tokens 4 * group ... 4 * group + 3 at an absolute position.
EADEM_FN PhiloxBlock token_words(std::uint64_t seed, std::uint32_t group, std::uint32_t position) {
  return philox4x32_10(seed, group, position, 0, static_cast<std::uint32_t>(Purpose::kToken));
}

/// The random word of one token at an absolute position: word token & 3 of its group's block.
EADEM_FN std::uint32_t token_word(std::uint64_t seed, std::uint32_t token, std::uint32_t position) {
  const PhiloxBlock block = token_words(seed, token >> 2, position);
  const std::uint32_t low = (token & 1) ? block.word[1] : block.word[0];
  const std::uint32_t high = (token & 1) ? block.word[3] : block.word[2];
  return (token & 2) ? high : low;
}

/// A word as a number in [2^-33, 1 - 2^-24].
EADEM_FN float uniform_w(std::uint32_t word) {
  const float w = fma_f32(static_cast<float>(word), 0x1p-32f, 0x1p-33f);
  return w < 0x1.fffffep-1f ? w : 0x1.fffffep-1f;
}

/// Gumbel noise -log(-log1p(-w)) of a number w = uniform_w(word): from -2.9 to 22.9.
template <class V>
EADEM_INLINE V gumbel(V w) {
  const V zero = V(0.0f);
  return sub(zero, log32(sub(zero, log1p32(sub(zero, w)))));
}

/// SplitMix64's output for a state: a bijection of 64-bit words.
EADEM_FN std::uint64_t splitmix64(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
  return state ^ (state >> 31);
}

/// The seed of sample i of a request with the given seed: the seed itself for i = 0, else the i-th output of the
/// SplitMix64 generator that starts from it, below 2^53 so that JSON can carry it.
EADEM_FN std::uint64_t mix(std::uint64_t seed, std::uint64_t i) {
  if (i == 0) return seed;
  return splitmix64(seed + i * 0x9E3779B97F4A7C15u) & ((std::uint64_t{1} << 53) - 1);
}

}  // namespace eadem::numerics
