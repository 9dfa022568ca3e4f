// What of free order on a CUDA device needs no device: how many splits it takes, its weights, and what it says without
// cuBLASLt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "bits/linear/harness.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/free/split_plan.h"
#include "kernels/cuda/free/weights.h"
#include "support/device_cells.h"
#include "support/host_device.h"

namespace eadem {
namespace {

using numerics::Numerics;
namespace cuda = kernels::cuda;

// ---- Splits ---------------------------------------------------------------------------------------------------------

// The share of the slots that works, in waves of whole splits.
double use_of(int units, int slots, int splits) {
  const double waves = static_cast<double>(units) * splits / slots;
  return waves / std::ceil(waves);
}

TEST(FreeSplits, FillTheSlotsWithFewSplits) {
  int several = 0;
  for (const int slots : {16, 132, 264}) {
    for (int units = 1; units <= 400; units += 1 + units / 8) {
      for (const int blocks : {1, 2, 3, 4, 7, 16, 33, 64, 100, 511, 2048}) {
        const int splits = cuda::free_splits(units, slots, blocks);
        SCOPED_TRACE(std::to_string(units) + " units, " + std::to_string(slots) + " slots, " + std::to_string(blocks) +
                     " blocks: " + std::to_string(splits));
        ASSERT_GE(splits, 1);
        ASSERT_LE(splits, cuda::kMostFreeSplits);
        // All splits have keys, and partial results have room.
        const int each = cuda::free_split_blocks(blocks, splits);
        ASSERT_EQ((blocks + each - 1) / each, splits);
        if (splits == 1) continue;
        ++several;
        ASSERT_LT(units, 0.8 * slots);
        ASSERT_LE(units * splits, cuda::kMostWaves * slots);
        ASSERT_GE(use_of(units, slots, splits), use_of(units, slots, 1));
      }
    }
  }
  EXPECT_GT(several, 300);
}

TEST(FreeSplits, OneLongSequenceFillsTheDeviceAndAFullBatchIsNotCut) {
  EXPECT_EQ(cuda::free_splits(8, 264, 64), 32);    // 64 blocks in splits of two
  EXPECT_GE(cuda::free_splits(8, 264, 2048), 28);  // 8 x 28 of 264: 85 %
  EXPECT_EQ(cuda::free_splits(512, 264, 64), 1);   // 64 sequences of 8 KV heads
  EXPECT_EQ(cuda::free_splits(8, 264, 1), 1);      // one block
}

// What makes it a control: the same row is cut otherwise in another batch, and beside a longer context.
TEST(FreeSplits, DependOnTheBatchAndOnTheLongestContext) {
  std::set<int> by_batch, by_context;
  for (const int sequences : {1, 2, 4, 8, 16, 32, 64}) {
    by_batch.insert(cuda::free_split_blocks(64, cuda::free_splits(8 * sequences, 264, 64)));
  }
  for (const int blocks : {16, 40, 64, 200}) {
    by_context.insert(cuda::free_split_blocks(blocks, cuda::free_splits(64, 264, blocks)));
  }
  EXPECT_GE(by_batch.size(), 4u);
  EXPECT_EQ(by_context.size(), 4u);
}

// As a warp makes the plan: a lane takes every 32nd number of splits.
TEST(FreeSplits, LanesTogetherChooseTheSame) {
  for (int units = 1; units <= 300; units += 7) {
    for (const int blocks : {1, 5, 64, 300, 2000}) {
      int best = 0, splits = cuda::kMostFreeSplits;
      for (int lane = 0; lane < 32; ++lane) {
        best = std::max(best, cuda::best_split_use(units, 264, blocks, lane + 1, 32));
      }
      for (int lane = 0; lane < 32; ++lane) {
        splits = std::min(splits, cuda::fewest_good_splits(units, 264, blocks, best, lane + 1, 32));
      }
      ASSERT_EQ(splits, cuda::free_splits(units, 264, blocks)) << units << " units, " << blocks << " blocks";
    }
  }
}

// ---- Weights --------------------------------------------------------------------------------------------------------

kernels::KernelSet free_packing(const kernels::KernelSet& base) {
  kernels::KernelSet set = base;
  set.name = "host-free";
  set.free_order = true;
  set.linear_bytes = cuda::free_linear_bytes;
  set.pack_operands = cuda::free_pack_operands;
  set.pack_int8 = cuda::free_pack_int8;
  return set;
}

TEST(FreeWeights, LieRowAfterRow) {
  using namespace kernels::testing;
  Draw draw(5);
  for (const Numerics numerics : numerics::kAllNumerics) {
    for (int i = 0; i < 12; ++i) {
      const kernels::LinearShape s = make_shape(numerics, 1 + draw.below(90), 1 + draw.below(400), 1 << draw.below(4),
                                                draw.chance(2) ? 128 : 32, draw.chance(2));
      const Layer layer = random_layer(s, 1, kNarrow, false, false, draw);
      const auto packed = pack(free_packing(kernels::best_kernel_set()), layer);
      const auto* const operands = reinterpret_cast<const uint16_t*>(packed.data());
      ASSERT_EQ(packed.size(), static_cast<size_t>(s.n) * static_cast<size_t>(s.k_padded) * 2);
      int wrong = 0;
      for (size_t at = 0; at < packed.size() / 2; ++at) {
        const size_t group = at / static_cast<size_t>(s.group);
        uint16_t wanted = numerics == Numerics::kInt8 ? uint16_t{0} : layer.w[at];
        if (numerics == Numerics::kInt8) {
          const double value = static_cast<double>(layer.wq[at]) * static_cast<double>(layer.w_scale[group]) +
                               (s.minimum ? static_cast<double>(layer.w_minimum[group]) : 0.0);
          wanted = numerics::bf16_operand(static_cast<float>(value));
        }
        wrong += operands[at] != wanted;
      }
      EXPECT_EQ(wrong, 0) << describe(layer, kNarrow);
    }
  }
}

// A device whose linear layers read these weights, adding up in double precision: the path from a model's file to a
// call in free order, and how far int8 with bf16 products is from the contract's.
class FreeHostDevice final : public testing::HostDevice {
 public:
  FreeHostDevice() : packing_(free_packing(kernels::best_kernel_set())) {}
  const kernels::KernelSet& packing() const override { return packing_; }
  bool fuses_swiglu(const kernels::LinearShape&, int) const override { return false; }
  void linear(const kernels::LinearCall& call, int rows) override {
    launch([=, this] {
      begin(rows);
      const kernels::LinearShape& s = *call.shape;
      const auto* const w = reinterpret_cast<const uint16_t*>(here(call.weights));
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t n = 0; n < s.n; ++n) {
          double sum = call.bias != nullptr ? static_cast<double>(here(call.bias)[n]) : 0.0;
          for (int64_t k = 0; k < s.k_padded; ++k) {
            sum += static_cast<double>(numerics::operand_value(here(call.x.operands)[row * s.k_padded + k])) *
                   static_cast<double>(numerics::operand_value(w[n * s.k_padded + k]));
          }
          float& y = here(call.y)[row * call.y_stride + n];
          y = (call.add_to_y ? y : 0.0f) + static_cast<float>(sum);
        }
      }
    });
  }

 private:
  kernels::KernelSet packing_;
};

class FreeModel : public ::testing::TestWithParam<Numerics> {};

TEST_P(FreeModel, IsAsAccurateAsTheContracts) {
  const testing::RandomShape shapes[] = {{"tiny", "qwen2", 2, 128, 4, 2, 32, 256, 211},
                                         {"smollm2", "llama", 2, 576, 9, 3, 64, 1536, 1024, 2048, 0, true}};
  for (const testing::RandomShape& shape : shapes) {
    const testing::ShapedModel files(shape);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 24; ++i) tokens.push_back(i * 37 % shape.vocab);
    const auto contract = testing::logits_of(*files.load(GetParam(), 1, 64, nullptr), tokens);
    const auto model = files.load(GetParam(), 1, 64, std::make_shared<FreeHostDevice>());
    EXPECT_TRUE(model->options().layout().free_order);
    const double apart = testing::distance(testing::logits_of(*model, tokens), contract);
    EXPECT_LT(apart, GetParam() == Numerics::kInt8 ? 0.05 : 0.01) << shape.name;
    EXPECT_GT(apart, 0.0) << shape.name;
    RecordProperty(shape.name, std::to_string(apart));
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, FreeModel, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& tested) { return std::string(numerics::short_name(tested.param)); });

// ---- Without cuBLASLt -----------------------------------------------------------------------------------------------

std::string error_of_opening(const char* named) {
  ::setenv("EADEM_CUBLASLT", named, 1);
  const auto opened = cuda::CublasLt::open();
  ::unsetenv("EADEM_CUBLASLT");
  return opened.ok() ? "opened" : opened.error().message;
}

TEST(FreeLibrary, ThatIsNotThereIsAnErrorThatSaysWhatToInstallAndWhereItLooked) {
  const std::string error = error_of_opening("/nowhere/libcublasLt.so.13");
  EXPECT_NE(error.find("EADEM_CUBLASLT is /nowhere/libcublasLt.so.13"), std::string::npos) << error;
  EXPECT_NE(error.find("install cuBLAS of CUDA 13"), std::string::npos) << error;
}

TEST(FreeLibrary, ThatIsAnotherIsAnErrorThatSaysWhatItLacks) {
  const std::string error = error_of_opening("libm.so.6");
  EXPECT_NE(error.find("cublasLtMatmulAlgoGetHeuristic"), std::string::npos) << error;
}

}  // namespace
}  // namespace eadem
