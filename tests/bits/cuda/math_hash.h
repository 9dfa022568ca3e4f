// A hash of an elementary function over a range of float bits, on a CUDA device.
#pragma once

#include <cstdint>

namespace eadem::test {

// kOperand: bf16_operand of x, twice in a word.
enum class Elementary { kExp, kLog, kLog1p, kSigmoid, kExp2p, kExp2Full, kOperand };

// Whether x is in the function's domain; other inputs add nothing to its hash.
inline constexpr float kExp2pLow = -50.0f, kExp2pHigh = 9.0f, kExp2FullHigh = 127.0f;

// The sum of splitmix64(bits of x << 32 | bits of f(x)) over all 2^32 floats of the domain.
uint64_t device_hash(Elementary function);

}  // namespace eadem::test
