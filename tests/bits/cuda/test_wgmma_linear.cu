// Linear layers by wgmma against the tree of mma16 as numerics/ writes it, evaluated on the device one output a thread.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bits/cuda/device_numbers.cuh"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/swiglu.cuh"
#include "kernels/cuda/linear/wgmma.h"
#include "numerics/layer.h"
#include "numerics/mma16.h"
#include "numerics/shards.h"

namespace eadem {
namespace {

using kernels::LinearCall;
using kernels::LinearShape;
using kernels::cuda::WgmmaPlan;
using test::DeviceArray;

// tree + bias, before the residual. x: [rows][k], w: [n][k].
__global__ void reference(const uint16_t* x, const uint16_t* w, const float* bias, int rows, int n, int k, int shards,
                          float* sums) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y);
  if (column >= n || row >= rows) return;
  const uint16_t *a = x + static_cast<size_t>(row) * k, *b = w + static_cast<size_t>(column) * k;
  float shard[numerics::kMaxShards] = {};
  for (int s = 0; s < shards; ++s) {
    const int begin = s * (k / shards);
    shard[s] = numerics::mma16_chain(0.0f, a + begin, b + begin, k / shards);
  }
  float sum = numerics::shard_tree(shard, shards);
  if (bias != nullptr) sum = numerics::add_f32(sum, bias[column]);
  sums[static_cast<size_t>(row) * n + column] = sum;
}

__global__ void pack(const uint16_t* w, int n, int k, int shards, int shard_tiles, std::byte* packed) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y);
  if (at >= k || row >= n) return;
  const int shard_k = k / shards, shard = at / shard_k, in_shard = at % shard_k;
  const size_t tile = static_cast<size_t>(row / 128) * (shards * shard_tiles) + shard * shard_tiles + in_shard / 64;
  const int byte = kernels::cuda::tile_byte(row % 128, in_shard % 64 * 2);
  *reinterpret_cast<uint16_t*>(packed + tile * kernels::cuda::kTileBytes + byte) = w[static_cast<size_t>(row) * k + at];
}

// What y must hold: results in [rows][n], with the residual where there is one, and `before` everywhere else.
__global__ void expect(const float* before, const float* sums, int rows, int n, int64_t stride, bool add, size_t count,
                       float* y) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const int row = static_cast<int>(i / stride), column = static_cast<int>(i % stride);
    const bool result = row < rows && column < n;
    const float sum = result ? sums[static_cast<size_t>(row) * n + column] : 0.0f;
    y[i] = !result ? before[i] : add ? numerics::add_f32(before[i], sum) : sum;
  }
}

__global__ void expect_gated(const float* sums, int outputs, int stride, uint16_t* y, bool* bad) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), row = static_cast<int>(blockIdx.y);
  if (column >= outputs) return;
  const float* const gates = sums + static_cast<size_t>(row) * 2 * outputs;
  const float x = numerics::swiglu(gates[column], gates[outputs + column]);
  if (numerics::is_nan(x)) bad[row] = true;
  y[static_cast<size_t>(row) * stride + column] = numerics::bf16_operand(x);
}

// For every gate: SwiGLU's operand without branches beside the definition, where its condition holds. counts: held,
// were wrong there, were wrong where it does not hold.
__global__ void plain_gates(int round, unsigned long long* counts) {
  unsigned long long held = 0, wrong = 0, wrong_beyond = 0;
  const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < uint64_t{1} << 32; i += threads) {
    const float gate = numerics::float_of(static_cast<uint32_t>(i));
    // Any bits; or a number of moderate size, so that the operand is seldom a limit.
    const uint32_t random = test::hash_of(i + (static_cast<uint64_t>(round) << 32));
    const float up =
        round % 2 == 0 ? numerics::float_of(random) : numerics::float_of((random & 0x8fffffffu) | 0x38000000u);
    const uint16_t expected = numerics::bf16_operand(numerics::swiglu(gate, up));
    const uint16_t upper = numerics::bf16_operand(numerics::swiglu(1.5f, up));
    const float first = kernels::cuda::plain_swiglu(gate, up), second = kernels::cuda::plain_swiglu(1.5f, up);
    const uint32_t pair = kernels::cuda::operand_pair(first, second);
    const bool holds = kernels::cuda::is_plain(gate, up),
               equal = pair == (expected | static_cast<uint32_t>(upper) << 16);
    held += holds, wrong += holds && !equal, wrong_beyond += !holds && !equal;
  }
  atomicAdd(counts, held), atomicAdd(counts + 1, wrong), atomicAdd(counts + 2, wrong_beyond);
}

struct Case {
  int n, k, shards, rows;
  bool bias, add;
  int pad;  // y_stride - n
};

class Layer {
 public:
  explicit Layer(const Case& c, float weight_scale = 1.0f)
      : case_(c),
        shape_{numerics::Numerics::kMma16, c.n, c.k, c.k, c.shards},
        stride_(c.n + c.pad),
        x_(static_cast<size_t>(c.rows) * c.k),
        w_(static_cast<size_t>(c.n) * c.k),
        packed_(kernels::cuda::linear_bytes(shape_)),
        bias_(c.n),
        sums_(static_cast<size_t>(c.rows) * c.n),
        before_(static_cast<size_t>(c.rows + 2) * stride_),
        y_(before_.size()),
        expected_(before_.size()) {
    test::fill_operands<<<512, 256>>>(x_.data(), x_.size(), 1, 1.0f);
    test::fill_operands<<<512, 256>>>(w_.data(), w_.size(), 2, weight_scale);
    test::fill_floats<<<512, 256>>>(bias_.data(), bias_.size(), 3, 4.0f);
    test::fill_floats<<<512, 256>>>(before_.data(), before_.size(), 4, 16.0f);
    const unsigned n = static_cast<unsigned>(c.n), k = static_cast<unsigned>(c.k);
    pack<<<dim3((k + 127) / 128, n), 128>>>(w_.data(), c.n, c.k, c.shards, kernels::cuda::shard_tiles(shape_),
                                            packed_.data());
    evaluate(c.shards);
  }

  void evaluate(int shards) {
    reference<<<dim3(static_cast<unsigned>(case_.n + 63) / 64, static_cast<unsigned>(case_.rows)), 64>>>(
        x_.data(), w_.data(), case_.bias ? bias_.data() : nullptr, case_.rows, case_.n, case_.k, shards, sums_.data());
    test::cuda_ok(cudaDeviceSynchronize());
  }

  int64_t sums_above(float limit) const {
    const std::vector<float> sums = sums_.host();
    return std::count_if(sums.begin(), sums.end(), [&](float sum) { return std::abs(sum) > limit; });
  }

  // The same of SwiGLU's operands: of gates and ups that the layer's sums give.
  unsigned long long wrong_gated(int rows) {
    const int outputs = case_.n / 2, stride = outputs + case_.pad;
    const DeviceArray<uint16_t> y(static_cast<size_t>(case_.rows + 2) * stride), expected(y.size());
    const DeviceArray<uint8_t> bad(static_cast<size_t>(case_.rows + 2)), expected_bad(bad.size());
    for (const auto& array : {&y, &expected}) test::cuda_ok(cudaMemset(array->data(), 0xee, array->bytes()));
    expect_gated<<<dim3(static_cast<unsigned>(outputs + 63) / 64, static_cast<unsigned>(rows)), 64>>>(
        sums_.data(), outputs, stride, expected.data(), reinterpret_cast<bool*>(expected_bad.data()));
    LinearCall call;
    call.shape = &shape_;
    call.weights = packed_.data();
    call.x.operands = x_.data();
    kernels::cuda::linear_wgmma_gated(nullptr, call, {y.data(), stride, reinterpret_cast<bool*>(bad.data())}, rows,
                                      132);
    test::cuda_ok(cudaDeviceSynchronize());
    EXPECT_EQ(bad.host(), expected_bad.host());
    return test::differing_words(y.data(), expected.data(), y.bytes());
  }
  // Words of y that are not what they must be after the first `rows` rows were evaluated.
  unsigned long long wrong(int rows, const WgmmaPlan* plan = nullptr, int processors = 132) {
    test::cuda_ok(cudaMemcpy(y_.data(), before_.data(), y_.bytes(), cudaMemcpyDeviceToDevice));
    expect<<<512, 256>>>(before_.data(), sums_.data(), rows, case_.n, stride_, case_.add, y_.size(), expected_.data());
    LinearCall call;
    call.shape = &shape_;
    call.weights = packed_.data();
    call.x.operands = x_.data();
    call.bias = case_.bias ? bias_.data() : nullptr;
    call.y = y_.data();
    call.y_stride = stride_;
    call.add_to_y = case_.add;
    EXPECT_TRUE(kernels::cuda::linear_wgmma_serves(call));
    if (plan != nullptr) {
      kernels::cuda::linear_wgmma(nullptr, call, rows, processors, *plan);
    } else {
      kernels::cuda::linear_wgmma(nullptr, call, rows, processors);
    }
    test::cuda_ok(cudaDeviceSynchronize());
    return test::differing_words(y_.data(), expected_.data(), y_.bytes());
  }

 private:
  Case case_;
  LinearShape shape_;
  int64_t stride_;
  DeviceArray<uint16_t> x_, w_;
  DeviceArray<std::byte> packed_;
  DeviceArray<float> bias_, sums_, before_, y_, expected_;
};

std::string name(const Case& c, int rows, const WgmmaPlan& p) {
  return "n " + std::to_string(c.n) + " k " + std::to_string(c.k) + " shards " + std::to_string(c.shards) + " rows " +
         std::to_string(rows) + " tile " + std::to_string(p.rows) + " x " + std::to_string(p.columns) +
         (p.split ? " split" : "");
}

TEST(WgmmaLinear, EveryNumberOfRows) {
  for (const Case& c : {Case{200, 96, 1, 300, true, false, 0}, Case{98, 576, 2, 300, false, true, 4},
                        Case{384, 640, 4, 300, true, true, 0}, Case{256, 768, 8, 300, false, true, 2},
                        Case{640, 1024, 8, 300, true, false, 0}}) {
    Layer layer(c);
    for (int rows = 1; rows <= c.rows; ++rows) {
      ASSERT_EQ(layer.wrong(rows), 0u) << name(c, rows, kernels::cuda::plan_wgmma(c.n, rows, c.shards, 132));
    }
  }
}

// Every tile that such a layer can have.
std::vector<WgmmaPlan> tiles(int shards) {
  if (shards > 1) return {{128, false}, {64, true}, {128, true}, {64, true, 64}};
  std::vector<WgmmaPlan> all;
  for (int columns : {48, 64, 96, 128, 192, 256}) {
    all.push_back({columns, false});
    if (columns < 256) all.push_back({columns, false, 64});
  }
  return all;
}

TEST(WgmmaLinear, EveryTile) {
  for (const Case& c : {Case{1000, 416, 1, 700, false, false, 0}, Case{2050, 320, 1, 700, true, true, 0},
                        Case{1026, 256, 1, 700, false, false, 2}, Case{1000, 1280, 8, 700, false, true, 0},
                        Case{642, 4096, 8, 700, true, false, 2}, Case{512, 288, 1, 700, false, false, 0}}) {
    Layer layer(c);
    for (int rows : {1, 33, 64, 65, 128, 129, 256, 257, 512, 640, 700}) {
      for (const WgmmaPlan& plan : tiles(c.shards)) ASSERT_EQ(layer.wrong(rows, &plan), 0u) << name(c, rows, plan);
    }
  }
}

// Layers of a decoding step of Qwen3-8B, and what evaluates them.
TEST(WgmmaLinear, FewRowsOfLargeLayers) {
  for (const Case& c : {Case{6144, 4096, 1, 64, false, false, 0}, Case{4096, 4096, 8, 64, false, true, 0},
                        Case{4096, 12288, 8, 64, true, true, 0}}) {
    Layer layer(c);
    for (int rows : {1, 33, 48, 63, 64}) {
      const WgmmaPlan plan = kernels::cuda::plan_wgmma(c.n, rows, c.shards, 132);
      EXPECT_EQ(plan.rows, 64);
      EXPECT_EQ(plan.split, c.shards == 8);
      EXPECT_TRUE(kernels::cuda::linear_wgmma_suits({numerics::Numerics::kMma16, c.n, c.k, c.k, c.shards}, rows, 132));
      for (int again = 0; again < 3; ++again) ASSERT_EQ(layer.wrong(rows), 0u) << name(c, rows, plan);
    }
  }
}

TEST(WgmmaLinear, ManyTilesABlock) {
  for (const Case& c : {Case{6144, 256, 1, 2100, false, false, 0}, Case{4096, 512, 8, 2100, false, true, 0}}) {
    Layer layer(c);
    for (int rows : {1024, 2048, 2100}) {
      ASSERT_EQ(layer.wrong(rows), 0u) << name(c, rows, kernels::cuda::plan_wgmma(c.n, rows, c.shards, 132));
    }
  }
}

// Trees of many tiles a block: with residual and without, by boxes and without, shards of one k block and of several.
TEST(WgmmaLinear, FewProcessors) {
  for (const Case& c : {Case{640, 512, 8, 300, false, true, 0}, Case{640, 2048, 8, 300, true, false, 0},
                        Case{642, 1536, 8, 300, true, true, 0}, Case{640, 768, 8, 300, false, true, 2},
                        Case{384, 640, 4, 300, true, true, 0}, Case{384, 576, 2, 300, false, true, 0},
                        Case{384, 512, 4, 300, false, false, 2}, Case{384, 128, 2, 300, true, false, 0}}) {
    Layer layer(c);
    const WgmmaPlan plan{128, false};
    for (int processors : {1, 2, 4, 7}) {
      for (int rows : {64, 129, 300}) ASSERT_EQ(layer.wrong(rows, &plan, processors), 0u) << name(c, rows, plan);
    }
  }
}

TEST(WgmmaLinear, GatesAndUps) {
  for (const Case& c : {Case{256, 96, 1, 300, false, false, 0}, Case{1536, 576, 1, 700, false, false, 64},
                        Case{24576, 256, 1, 700, false, false, 0}}) {
    Layer layer(c);
    for (int rows : {1, 63, 64, 65, 128, 129, 192, 256, 300, 513, 640, 700}) {
      if (rows <= c.rows) ASSERT_EQ(layer.wrong_gated(rows), 0u) << c.n << " rows " << rows;
    }
  }
  Layer many(Case{6144, 256, 1, 2100, false, false, 0});  // tiles a block
  ASSERT_EQ(many.wrong_gated(2100), 0u);
}

TEST(WgmmaLinear, PlainSwiglu) {
  for (int round = 0; round < 4; ++round) {
    const DeviceArray<unsigned long long> counts(3);
    plain_gates<<<132 * 8, 256>>>(round, counts.data());
    const auto host = counts.host();
    EXPECT_GT(host[0], uint64_t{1} << 30);
    EXPECT_EQ(host[1], 0u);
    EXPECT_GT(host[2], 1000u) << "the condition is needed";
  }
}

// Gates that SwiGLU without branches takes, none, a few, or nearly all.
TEST(WgmmaLinear, GatesOfAnySize) {
  const auto large = [](float weight_scale) {
    Layer layer(Case{512, 1024, 1, 300, false, false, 0}, weight_scale);
    EXPECT_EQ(layer.wrong_gated(300), 0u) << weight_scale;
    return layer.sums_above(80.0f);
  };
  EXPECT_EQ(large(0.02f), 0);
  const int64_t some = large(0.06f);
  EXPECT_GT(some, 10);
  EXPECT_LT(some, 300 * 512 / 16);
  EXPECT_GT(large(1.0f), 300 * 512 / 2);
}

// Gates and ups of another tree are not equal. Rounding to operands hides most of the bits that move.
TEST(WgmmaLinear, GatesOfAnotherTreeDiffer) {
  Layer layer(Case{1024, 512, 1, 256, false, false, 0});
  EXPECT_EQ(layer.wrong_gated(256), 0u);
  layer.evaluate(2);
  EXPECT_GT(layer.wrong_gated(256), 20u);
}

// The same layer in another order is not equal: these numbers see the order.
TEST(WgmmaLinear, AnotherTreeDiffers) {
  Layer layer(Case{256, 1024, 8, 128, false, false, 0});
  EXPECT_EQ(layer.wrong(128), 0u);
  layer.evaluate(4);
  EXPECT_GT(layer.wrong(128), 1000u);
}

}  // namespace
}  // namespace eadem
