// That fma32's attention of the AMX set runs on AMX (support/tiles_in_use.h).
#include "bits/attention/harness.h"

#if defined(__x86_64__)
#include "kernels/sets.h"
#include "support/tiles_in_use.h"

namespace eadem::test {
namespace {

bool leaves_tiles(const KernelSet& set, int group, int rows) {
  const Sequence s = make_sequence(make_shape(Numerics::kFma32, 1, group, 64, 0), 200, Data::kOrdinary, 5);
  std::vector<int64_t> positions;
  for (int r = 0; r < rows; ++r) positions.push_back(100 + r);
  release_tiles();
  EXPECT_FALSE(tiles_in_use());
  attend(set, s, positions);
  const bool used = tiles_in_use();
  release_tiles();
  return used;
}

TEST(AttentionTiles, TheAmxSetUsesThem) {
  if (!kernels::kAmxSet.supported() || !tells_tiles_in_use()) GTEST_SKIP() << "no AMX here";
  for (const int rows : {1, 5, 16, 40}) {
    for (const int group : {1, 3, 8}) EXPECT_TRUE(leaves_tiles(kernels::kAmxSet, group, rows)) << rows << " " << group;
  }
  // The control: the same rows by a set that has none.
  EXPECT_FALSE(leaves_tiles(kernels::kAvx512Bf16Set, 3, 16));
}

}  // namespace
}  // namespace eadem::test
#endif
