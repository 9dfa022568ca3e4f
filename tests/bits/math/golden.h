// Digests of the elementary functions as each instruction set's compiler flags make them.
#pragma once

#include <string>
#include <vector>

namespace eadem::test {

/// The SHA-256 of a function's results, as little-endian bits, over the fixed inputs of golden.inc.
struct Digest {
  std::string function;
  std::string sha256;
};

namespace baseline {
std::vector<Digest> digests();
}
#if defined(__x86_64__)
namespace avx2 {
std::vector<Digest> digests();
}
namespace avx512 {
std::vector<Digest> digests();
}
#endif

}  // namespace eadem::test
