// Free order on a CUDA device is a control: its values must be as good as the contract's, and its bits must depend on
// the batch. cuBLASLt must be there (EADEM_CUBLASLT).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "bits/cuda/attention_calls.h"
#include "bits/linear/harness.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/free/weights.h"

namespace eadem::kernels::testing {
namespace {

using test::DeviceArray;

cuda::CublasLt& library() {
  static const auto opened = cuda::CublasLt::open();
  if (!opened.ok()) {
    ADD_FAILURE() << opened.error().message;
    std::exit(1);
  }
  return *opened.value();
}

float begun(size_t i) { return static_cast<float>(i % 1009) - 504.25f; }

// A layer whose weights and rows lie in device memory, as free order has them.
class OnDevice {
 public:
  explicit OnDevice(const Layer& layer)
      : layer_(layer), weights_(packed()), x_(layer.x), bias_(layer.bias), y_(size()) {}

  size_t stride() const { return static_cast<size_t>(layer_.shape.n) + kPast; }
  size_t size() const { return static_cast<size_t>(layer_.rows) * stride(); }
  // bf16, as packed.
  std::vector<uint16_t> weights() const {
    const std::vector<std::byte> bytes = packed();
    std::vector<uint16_t> w(bytes.size() / 2);
    std::memcpy(w.data(), bytes.data(), bytes.size());
    return w;
  }

  void begin() const {
    std::vector<float> y(size());
    for (size_t i = 0; i < y.size(); ++i) y[i] = begun(i);
    y_.put(y);
  }
  void call(cudaStream_t stream, int rows) const {
    cuda::Matmul call;
    call.rows = rows, call.n = layer_.shape.n, call.k = layer_.shape.k_padded;
    call.x = x_.data(), call.w = weights_.data();
    call.bias = layer_.bias.empty() ? nullptr : bias_.data();
    call.y = y_.data(), call.y_stride = static_cast<int64_t>(stride());
    call.add_to_y = layer_.residual;
    library().run(stream, call);
  }
  std::vector<float> run(int rows) const {
    begin();
    call(nullptr, rows);
    test::finish_kernels();
    return y_.host();
  }
  std::vector<float> host() const { return y_.host(); }

 private:
  std::vector<std::byte> packed() const {
    KernelSet set{};
    set.linear_bytes = cuda::free_linear_bytes;
    set.pack_operands = cuda::free_pack_operands, set.pack_int8 = cuda::free_pack_int8;
    return pack(set, layer_);
  }

  const Layer& layer_;
  DeviceArray<std::byte> weights_;
  DeviceArray<uint16_t> x_;
  DeviceArray<float> bias_, y_;
};

// The same layer with the weights that free order has, by a CPU set in float32.
std::vector<float> expected_of(const Layer& layer, const std::vector<uint16_t>& weights) {
  Layer plain = layer;
  plain.shape.numerics = Numerics::kFma32, plain.shape.group = 32, plain.shape.shards = 1;
  plain.shape.minimum = false, plain.shape.stored = Int8Weights::kAny;
  plain.w = weights;
  return evaluate(best_kernel_set(), plain, nullptr);
}

class FreeLinear : public ::testing::TestWithParam<Numerics> {};

TEST_P(FreeLinear, IsCloseForAnyShapeAndWritesNothingElse) {
  Draw draw(21);
  for (const int n : {16, 72, 211, 576, 1536}) {
    for (const int k : {32, 104, 576, 2048}) {
      for (const bool whole : {false, true}) {
        const LinearShape shape = make_shape(GetParam(), n, k, 1, k % 128 == 0 ? 128 : 32, whole);
        const Layer layer = random_layer(shape, 300, kNormal, whole, draw.chance(2), draw);
        const OnDevice device(layer);
        const std::vector<float> wanted = expected_of(layer, device.weights());
        for (const int rows : {1, 2, 3, 7, 8, 33, 64, 65, 300}) {
          const std::vector<float> got = device.run(rows);
          double apart = 0, norm = 0;
          size_t elsewhere = 0;
          for (size_t i = 0; i < got.size(); ++i) {
            const bool mine = i / device.stride() < static_cast<size_t>(rows) && i % device.stride() < size_t(n);
            if (!mine) {
              elsewhere += got[i] != begun(i);
              continue;
            }
            const double before = layer.residual ? static_cast<double>(begun(i)) : 0.0;
            apart += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
            norm += std::pow(static_cast<double>(wanted[i]) - before, 2);
          }
          EXPECT_EQ(elsewhere, 0u) << describe(layer, kNormal) << " of rows " << rows;
          EXPECT_LT(std::sqrt(apart / norm), 1e-4) << describe(layer, kNormal) << " of rows " << rows;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllNumerics, FreeLinear, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& param) { return std::string(numerics::short_name(param.param)); });

// What the control is for: the bits of a row move with the number of rows.
TEST(FreeLinear, BitsDependOnTheNumberOfRows) {
  Draw draw(22);
  int shapes_that_move = 0;
  for (const auto& [n, k] : {std::pair{1536, 576}, {576, 1536}, {1024, 4096}, {4096, 4096}}) {
    const Layer layer =
        random_layer(make_shape(Numerics::kMma16, n, k, 1, 32, false), 512, kNarrow, false, false, draw);
    const OnDevice device(layer);
    const std::vector<float> alone = device.run(1);
    EXPECT_EQ(std::memcmp(device.run(1).data(), alone.data(), static_cast<size_t>(n) * sizeof(float)), 0)
        << "the same call twice";
    int moved = 0;
    for (const int rows : {2, 7, 8, 16, 33, 64, 128, 200, 512}) {
      moved += std::memcmp(device.run(rows).data(), alone.data(), static_cast<size_t>(n) * sizeof(float)) != 0;
    }
    std::printf("n %d, k %d: the first row's bits move with %d of 9 numbers of rows\n", n, k, moved);
    shapes_that_move += moved > 0;
  }
  EXPECT_GE(shapes_that_move, 2);
}

// A recorded call gives the bits of the call, also where two layers of one shape have a bias each.
TEST(FreeLinear, IsRecordedWithItsOwnBias) {
  Draw draw(23);
  const LinearShape shape = make_shape(Numerics::kMma16, 640, 1024, 1, 32, false);
  const Layer layers[] = {random_layer(shape, 16, kNormal, true, false, draw),
                          random_layer(shape, 16, kNormal, true, false, draw)};
  const OnDevice devices[] = {OnDevice(layers[0]), OnDevice(layers[1])};
  std::vector<float> wanted[2];
  for (int i = 0; i < 2; ++i) wanted[i] = devices[i].run(16);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recording = nullptr;
  test::cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const OnDevice& device : devices) device.begin();
  test::finish_kernels();
  test::cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (const OnDevice& device : devices) device.call(stream, 16);
  test::cuda_ok(cudaStreamEndCapture(stream, &graph));
  test::cuda_ok(cudaGraphInstantiate(&recording, graph, 0));
  for (int time = 0; time < 3; ++time) test::cuda_ok(cudaGraphLaunch(recording, stream));
  test::cuda_ok(cudaStreamSynchronize(stream));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(devices[i].host(), wanted[i]) << i;
  test::cuda_ok(cudaGraphExecDestroy(recording));
  test::cuda_ok(cudaGraphDestroy(graph));
  test::cuda_ok(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace eadem::kernels::testing

namespace eadem::test {
namespace {

using kernels::SumOrder;

// Both in operands, whose rounding alone is 2^-9 of a value.
void expect_close(const Sequence& s, const Call& call, int64_t length) {
  const Pool pool(s);
  const auto got = device_rows(s, pool, call, length, SumOrder::kFree);
  const auto wanted = device_rows(s, pool, call, length);
  for (const DeviceRun& run : call.runs) {
    for (int r = run.row_begin; r < run.row_end; ++r) {
      const RowOut &g = got[static_cast<size_t>(r)], &w = wanted[static_cast<size_t>(r)];
      double apart = 0, norm = 0;
      int written = 0;
      for (size_t i = 0; i < w.out.size(); ++i) {
        const double x = static_cast<double>(numerics::operand_value(g.out[i]));
        const double y = static_cast<double>(numerics::operand_value(w.out[i]));
        apart += (x - y) * (x - y), norm += y * y;
        written += g.out[i] != 0xabcd;
      }
      if (run.first_position < 0) {
        EXPECT_EQ(written, 0) << name_of(s.shape) << ": padding";
        continue;
      }
      EXPECT_LT(std::sqrt(apart / norm), 0.005)
          << name_of(s.shape) << ": row " << r << " at " << run.first_position + r - run.row_begin;
      EXPECT_FALSE(g.bad || w.bad) << name_of(s.shape) << ": row " << r;
    }
  }
}

Call long_runs() {
  Call call;
  call.add(0, 0, 200);
  call.add(1, 1500, 1);
  call.add(2, 900, 130);
  call.add(1, 100, 17);
  return call;
}

TEST(FreeAttention, IsCloseForEveryHeadSize) {
  for (const int size : {8, 33, 64, 80, 128, 192, 256}) {
    for (const Data data : {Data::kOrdinary, Data::kPeaked}) {
      const Sequence s = make_sequence(make_shape(Numerics::kMma16, 2, 4, size, 0), 2600, data, 31);
      expect_close(s, single_rows(2600), 2600);
      expect_close(s, mixed_runs(), 2600);
      expect_close(s, long_runs(), 2600);
    }
  }
}

TEST(FreeAttention, IsCloseForGroupsAndWindows) {
  for (const int group : {1, 3, 8, 16, 17, 33}) {
    expect_close(make_sequence(make_shape(Numerics::kMma16, 2, group, 64, 0), 2200, Data::kOrdinary, 32), mixed_runs(),
                 2200);
  }
  for (const int64_t window : {1, 63, 64, 100, 1024, 1500, 3000}) {
    const Sequence s = make_sequence(make_shape(Numerics::kMma16, 2, 4, 128, window), 2600, Data::kOrdinary, 33);
    expect_close(s, single_rows(2600), 2600);
    expect_close(s, mixed_runs(), 2600);
    expect_close(s, long_runs(), 2600);
  }
}

// More rows than a launch has; contexts longer than a warp's worth of blocks, cut and whole.
TEST(FreeAttention, IsCloseForManyRowsAndLongContexts) {
  Call many, few;
  Random random(34);
  for (int r = 0; r < 700; ++r) many.add(r % kSequences, random.below(2200), 1);
  for (const int64_t position : {9999, 6200, 12287, 4096}) few.add(1, position, 1);
  expect_close(make_sequence(make_shape(Numerics::kMma16, 2, 4, 64, 0), 2200, Data::kOrdinary, 34), many, 2200);
  const Sequence s = make_sequence(make_shape(Numerics::kMma16, 1, 4, 64, 0), 12300, Data::kOrdinary, 35);
  expect_close(s, few, 12300);
  Call full;
  for (int r = 0; r < 300; ++r) full.add(r % kSequences, 12299 - r, 1);
  expect_close(s, full, 12300);
}

// The control: a row's bits move with the rows beside it; the contract's do not.
TEST(FreeAttention, BitsDependOnTheBatch) {
  const Sequence s = make_sequence(make_shape(Numerics::kMma16, 2, 4, 128, 0), 5000, Data::kOrdinary, 36);
  const Pool pool(s);
  const auto differing = [&](SumOrder order, int rows) {
    int count = 0;
    for (const int64_t position : {4999, 3777, 2500}) {
      Call alone, together;
      alone.add(0, position, 1);
      for (int r = 0; r < rows; ++r) together.add(r % kSequences, r == 0 ? position : 4000 + r, 1);
      const auto a = device_rows(s, pool, alone, 5000, order)[0].out;
      const auto b = device_rows(s, pool, together, 5000, order)[0].out;
      for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
    }
    return count;
  };
  for (const int rows : {8, 64, 200}) {
    EXPECT_GT(differing(SumOrder::kFree, rows), 0) << rows;
    EXPECT_EQ(differing(SumOrder::kContract, rows), 0) << rows;
  }
}

}  // namespace
}  // namespace eadem::test
