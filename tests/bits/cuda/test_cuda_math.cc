// The elementary functions and operands on a CUDA device, all 2^32 floats: the hashes are those of the host
// (tests/bits/math/math_exhaustive.cc for the first four).
#include <gtest/gtest.h>

#include "bits/cuda/device_memory.h"
#include "bits/cuda/math_hash.h"

namespace eadem::test {
namespace {

TEST(CudaMath, EveryFloat) {
  EXPECT_EQ(device_hash(Elementary::kExp), 0x016a579dd68fc9b7u);
  EXPECT_EQ(device_hash(Elementary::kLog), 0x8cdd41636920cbdau);
  EXPECT_EQ(device_hash(Elementary::kLog1p), 0x25429c42fc35e64eu);
  EXPECT_EQ(device_hash(Elementary::kSigmoid), 0x28a92c6f96932ba2u);
  EXPECT_EQ(device_hash(Elementary::kExp2p), 0x5506256b9c4fc550u);
  EXPECT_EQ(device_hash(Elementary::kExp2Full), 0x614a815c030da70eu);
  EXPECT_EQ(device_hash(Elementary::kOperand), 0x7c71458589ec7c8fu);
  EXPECT_NE(device_hash(Elementary::kExp), device_hash(Elementary::kLog));
}

}  // namespace
}  // namespace eadem::test
