// Without a device: packed weights lie where layout.h says, and every plan fits the machine.
#include <gtest/gtest.h>

#include "bits/linear/harness.h"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/plan.h"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::testing {
namespace {

KernelSet packing() {
  KernelSet set{};
  set.linear_bytes = cuda::linear_bytes, set.pack_operands = cuda::pack_operands, set.pack_int8 = cuda::pack_int8;
  return set;
}

// Where the bytes of element k of output n begin.
size_t element_at(const LinearShape& s, int n, int k) {
  const int shard = k / cuda::shard_k(s), in_shard = k % cuda::shard_k(s);
  const int tile = shard * cuda::shard_tiles(s) + in_shard / cuda::tile_k(s);
  const int size = s.numerics == Numerics::kInt8 ? 1 : 2;
  return cuda::tile_offset(s, n / cuda::kTileRows, tile) +
         static_cast<size_t>(cuda::tile_byte(n % cuda::kTileRows, in_shard % cuda::tile_k(s) * size));
}

class CudaLinearLayout : public ::testing::TestWithParam<Numerics> {};

// Takes every element out of its place and leaves zeros behind: then nothing else was written.
TEST_P(CudaLinearLayout, EveryElementHasItsPlace) {
  Draw draw(3);
  for (int i = 0; i < 24; ++i) {
    const LinearShape s = make_shape(GetParam(), 1 + draw.below(300), 1 + draw.below(900), 1 << draw.below(4),
                                     draw.chance(2) ? 128 : 32, draw.chance(2));
    const Layer layer = random_layer(s, 1, kNormal, false, false, draw);
    std::vector<std::byte> packed = pack(packing(), layer);
    const bool int8 = s.numerics == Numerics::kInt8;
    size_t wrong = 0;
    for (int n = 0; n < s.n; ++n) {
      for (int k = 0; k < s.k_padded; ++k) {
        const size_t index = static_cast<size_t>(n) * static_cast<size_t>(s.k_padded) + static_cast<size_t>(k);
        const void* wanted = int8 ? static_cast<const void*>(&layer.wq[index]) : &layer.w[index];
        std::byte* at = packed.data() + element_at(s, n, k);
        wrong += memcmp(at, wanted, int8 ? 1 : 2) != 0;
        memset(at, 0, int8 ? 1 : 2);
      }
      const int groups = cuda::side_groups(s), per_shard = s.groups() / s.shards;
      for (int g = 0; int8 && g < s.groups(); ++g) {
        const int tile = g / per_shard * cuda::shard_tiles(s) + g % per_shard / groups;
        auto* entry = reinterpret_cast<float*>(packed.data() + cuda::side_offset(s, n / cuda::kTileRows, tile)) +
                      n % cuda::kTileRows * cuda::side_floats(s) + g % per_shard % groups;
        const size_t index = static_cast<size_t>(n) * static_cast<size_t>(s.groups()) + static_cast<size_t>(g);
        wrong += memcmp(entry, &layer.w_scale[index], 4) != 0;
        entry[0] = 0.0f;
        if (!s.minimum) continue;
        wrong += memcmp(entry + groups, &layer.w_minimum[index], 4) != 0;
        entry[groups] = 0.0f;
      }
    }
    EXPECT_EQ(wrong, 0u) << describe(layer, kNormal);
    const auto left = std::count_if(packed.begin(), packed.end(), [](std::byte b) { return b != std::byte{0}; });
    EXPECT_EQ(left, 0) << describe(layer, kNormal);
  }
}

TEST_P(CudaLinearLayout, PlansFitTheMachine) {
  Draw draw(4);
  for (int i = 0; i < 60; ++i) {
    const LinearShape s = make_shape(GetParam(), 1 + draw.below(20000), 1 + draw.below(13000), 1 << draw.below(4),
                                     draw.chance(2) ? 128 : 32, draw.chance(2));
    for (const int rows : {1, 2, 7, 8, 9, 33, 64, 65, 300}) {
      for (const int processors : {78, 114, 132}) {
        const cuda::LinearPlan plan = cuda::plan_linear(s, rows, processors);
        if (s.numerics == Numerics::kFma32) {  // whose kernels are of one size (static_assert in fma32.cu)
          ASSERT_TRUE(plan.rows <= 8 && (plan.rows >= rows || plan.rows == 8) && plan.outputs == 32);
          continue;
        }
        ASSERT_GE(cuda::linear_stages(s, plan), 2);
        ASSERT_LE(cuda::linear_workers(s, plan) + 32 * cuda::linear_producers(s, plan), 1024);
        ASSERT_EQ(s.shards % plan.split, 0);
        ASSERT_LE(s.shards / plan.split, 1 << cuda::tree_levels(plan.group_rows()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllNumerics, CudaLinearLayout, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

}  // namespace
}  // namespace eadem::kernels::testing
