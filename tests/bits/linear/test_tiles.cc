// That the AMX set's linear layers run on AMX (support/tiles_in_use.h).
#include <gtest/gtest.h>

#include "bits/linear/harness.h"

#if defined(__x86_64__)
#include "kernels/sets.h"
#include "support/tiles_in_use.h"

namespace eadem::kernels::testing {
namespace {

// Whether a set's linear layer leaves tiles behind.
bool leaves_tiles(const KernelSet& set, Numerics numerics, int rows) {
  Draw draw(static_cast<uint64_t>(rows));
  const Layer layer = random_layer(make_shape(numerics, 70, 192, 2, 32, false), rows, kNarrow, true, false, draw);
  test::release_tiles();
  EXPECT_FALSE(test::tiles_in_use());
  EXPECT_FALSE(evaluate(set, layer, nullptr).empty());
  const bool used = test::tiles_in_use();
  test::release_tiles();
  return used;
}

TEST(Tiles, LinearLayersOfTheAmxSetUseThem) {
  if (!kAmxSet.supported() || !test::tells_tiles_in_use()) GTEST_SKIP() << "no AMX here";
  for (const int rows : {1, 2, 15, 16, 17, 33, 48, 64, 65, 97, 130}) {
    EXPECT_TRUE(leaves_tiles(kAmxSet, Numerics::kFma32, rows)) << rows << " rows";
  }
  // The control: the same layers by a set that has none.
  EXPECT_FALSE(leaves_tiles(kAvx512Bf16Set, Numerics::kFma32, 1));
  EXPECT_FALSE(leaves_tiles(kAvx512Bf16Set, Numerics::kFma32, 65));
}

}  // namespace
}  // namespace eadem::kernels::testing
#endif
