// That the AMX set's linear layers run on AMX (support/tiles_in_use.h).
#include <gtest/gtest.h>

#include "bits/linear/harness.h"

#if defined(__x86_64__)
#include "kernels/sets.h"
#include "support/tiles_in_use.h"

namespace eadem::kernels::testing {
namespace {

// Whether a set's linear layer leaves tiles behind.
bool leaves_tiles(const KernelSet& set, Numerics numerics, int rows, Int8Weights stored = Int8Weights::kAny) {
  Draw draw(static_cast<uint64_t>(rows));
  LinearShape shape = make_shape(numerics, 70, 256, 2, stored == Int8Weights::kAny ? 128 : 32, false);
  shape.stored = stored;
  const Layer layer = random_layer(shape, rows, kNarrow, true, false, draw);
  test::release_tiles();
  EXPECT_FALSE(test::tiles_in_use());
  EXPECT_FALSE(evaluate(set, layer, nullptr).empty());
  const bool used = test::tiles_in_use();
  test::release_tiles();
  return used;
}

TEST(Tiles, LinearLayersOfTheAmxSetUseThem) {
  if (!kAmxSet.supported() || !test::tells_tiles_in_use()) GTEST_SKIP() << "no AMX here";
  for (const int rows : {3, 4, 15, 16, 17, 33, 48, 64, 65, 97, 130}) {  // fewer are FMA's
    EXPECT_TRUE(leaves_tiles(kAmxSet, Numerics::kFma32, rows)) << rows << " rows";
  }
  for (const int rows : {9, 16, 17, 33, 65, 130}) {  // fewer rows are VNNI's
    for (const Int8Weights stored : {Int8Weights::kAny, Int8Weights::kHalves, Int8Weights::kNibbles}) {
      EXPECT_TRUE(leaves_tiles(kAmxSet, Numerics::kInt8, rows, stored)) << rows << " rows of int8";
    }
  }
  // The control: the same layers by a set that has none.
  EXPECT_FALSE(leaves_tiles(kAvx512Bf16Set, Numerics::kFma32, 1));
  EXPECT_FALSE(leaves_tiles(kAvx512Bf16Set, Numerics::kFma32, 65));
  EXPECT_FALSE(leaves_tiles(kAvx512Bf16Set, Numerics::kInt8, 65));
}

}  // namespace
}  // namespace eadem::kernels::testing
#endif
