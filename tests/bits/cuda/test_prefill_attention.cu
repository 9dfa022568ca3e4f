// Attention by wgmma against numerics/attention.h, evaluated on the device by one block of threads for each row and
// head.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "bits/cuda/device_numbers.cuh"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/attention/prefill.h"
#include "numerics/attention.h"

namespace eadem {
namespace {

using kernels::AttentionShape;
using kernels::DeviceAttentionCall;
using kernels::DeviceKv;
using kernels::DeviceRun;
using test::DeviceArray;

// A row and head inside a split; o: this thread's elements 64 i + thread of the head.
struct RowState {
  numerics::SplitState split;
  float o[4] = {};
  bool bad = false;
};

// Adds the block whose keys and values lie at k and v. 64 threads: one key each, then some elements of the head each.
__device__ void add_block(const AttentionShape& shape, const uint16_t* q, const uint16_t* k, const uint16_t* v,
                          bool seen, bool strict, RowState& state) {
  using namespace numerics;
  __shared__ float s[64], p[64];
  __shared__ uint16_t weights[64];
  const int thread = static_cast<int>(threadIdx.x);
  float acc = 0.0f;
  for (int g = 0; g < shape.head_padded; g += 16) {
    uint16_t key[16];
    for (int i = 0; i < 16; ++i) key[i] = k[kernels::cuda::kv_element(thread, g + i)];
    acc = mma16(acc, q + g, key);
  }
  s[thread] = seen ? acc : kMinusInfinity;
  __syncthreads();
  float largest = kMinusInfinity;
  for (float x : s) largest = x > largest ? x : largest;
  if (largest > kMinusInfinity) {  // the same for every thread
    const float m = state.split.m;
    const float next = strict ? (largest > m ? largest : m) : next_reference(m, largest, shape.c);
    const float a = rescale_factor(m, next, shape.c), minus_mc = -mul_f32(next, shape.c);
    state.split.m = next;
    state.bad |= !(fabsf(minus_mc) <= kScoreLimit);
    p[thread] = seen ? key_weight(acc, shape.c, minus_mc) : 0.0f;
    weights[thread] = bf16_operand(p[thread]);
    __syncthreads();
    add_weights(state.split, p, a);
    for (int i = 0; i < 4 && thread + 64 * i < shape.head_size; ++i) {
      float o = a != 1.0f ? rescale_output(state.o[i], a) : state.o[i];
      for (int g = 0; g < 64; g += 16) {
        uint16_t value[16];
        for (int j = 0; j < 16; ++j) value[j] = v[kernels::cuda::kv_element(g + j, thread + 64 * i)];
        o = mma16(o, weights + g, value);
      }
      state.o[i] = o;
    }
  }
  __syncthreads();
}

// blockIdx: head, row. strict: the reference is the running maximum, which is another definition.
__global__ void reference(AttentionShape shape, DeviceAttentionCall call, bool strict) {
  using namespace numerics;
  const int head = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t position = call.positions[row];
  const uint16_t* q = call.q + (static_cast<int64_t>(row) * shape.heads + head) * shape.head_padded;
  const auto* table = call.kv.tables + call.sequences[row] * call.kv.table_stride;
  const size_t head_offset = static_cast<size_t>(head / (shape.heads / shape.kv_heads)) * call.kv.head_stride;
  float total[4] = {}, big_m = kMinusInfinity, big_l = 0.0f;
  bool bad = false;
  for (int64_t split = 0; split * kSplit <= position; ++split) {
    RowState state;
    for (int64_t block = split * 16; block < split * 16 + 16 && block * 64 <= position; ++block) {
      const std::byte* at = call.kv.base + static_cast<size_t>(table[block]) * call.kv.block_stride + head_offset;
      const auto* k = reinterpret_cast<const uint16_t*>(at);
      const bool seen = visible(position, block * 64 + thread, shape.window);
      add_block(shape, q, k, k + kernels::cuda::kv_image_bytes(shape.head_padded) / 2, seen, strict, state);
    }
    bad |= state.bad;
    if (state.split.m == kMinusInfinity) continue;
    const float l = split_weight(state.split);
    const bool first = big_m == kMinusInfinity;
    const MergeFactors f =
        first ? MergeFactors{state.split.m, 0.0f, 1.0f} : merge_factors(big_m, state.split.m, shape.c);
    big_m = f.m;
    big_l = first ? l : merge(big_l, f.e1, l, f.e2);
    for (int i = 0; i < 4; ++i) total[i] = first ? state.o[i] : merge(total[i], f.e1, state.o[i], f.e2);
  }
  uint16_t* out = call.out + row * call.out_stride + head * shape.head_size;
  for (int i = 0; i < 4 && thread + 64 * i < shape.head_size; ++i) {
    out[thread + 64 * i] = bf16_operand(mul_f32(total[i], div_f32(1.0f, big_l)));
  }
  if (bad && thread == 0) call.bad[row] = true;
}

// q: [rows][heads][head_padded] and blocks, zeros beyond head_size.
__global__ void fill_padded(uint16_t* q, size_t count, int head_size, int head_padded, float scale) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const int d = static_cast<int>(i % head_padded);
    q[i] = d < head_size ? numerics::bf16_operand(test::number_of(i, 5, scale)) : 0;
  }
}
__global__ void fill_blocks(uint16_t* kv, int images, int head_size, int head_padded) {
  const int elements = kernels::cuda::kv_image_bytes(head_padded) / 2;
  for (int image = static_cast<int>(blockIdx.x); image < images; image += static_cast<int>(gridDim.x)) {
    uint16_t* to = kv + static_cast<size_t>(image) * elements;
    for (int i = static_cast<int>(threadIdx.x); i < 64 * head_size; i += static_cast<int>(blockDim.x)) {
      const uint64_t index = static_cast<uint64_t>(image) * 65536 + i;
      to[kernels::cuda::kv_element(i / head_size, i % head_size)] =
          numerics::bf16_operand(test::number_of(index, 6, 1.0f));
    }
  }
}

struct Case {
  int heads, kv_heads, head_size, head_padded;
  int64_t window;
  float scale;  // of q: large scores move references
};

// Runs: (first position, rows).
using Runs = std::vector<std::pair<int, int>>;

class Problem {
 public:
  Problem(const Case& c, const Runs& runs, float c_factor = 1.0f) : case_(c) {
    shape_ = {numerics::Numerics::kMma16, c.heads, c.kv_heads, c.head_size, c.head_padded, 0.0f, c.window};
    shape_.c = 1.44269504f / sqrtf(static_cast<float>(c.head_size)) * c_factor;
    std::vector<int64_t> positions;
    std::vector<int32_t> sequences;
    int blocks = 0;
    for (const auto& [first, rows] : runs) {
      const int begin = static_cast<int>(positions.size()), sequence = static_cast<int>(runs_.size());
      for (int i = 0; i < rows; ++i) positions.push_back(first + i), sequences.push_back(sequence);
      runs_.push_back({sequence, begin, begin + rows, first, first + rows - 1});
      blocks = std::max(blocks, (first + rows + 63) / 64);
    }
    const int rows = static_cast<int>(positions.size()), pool = blocks * static_cast<int>(runs.size());
    std::vector<int32_t> tables(static_cast<size_t>(pool));
    for (int i = 0; i < pool; ++i) tables[static_cast<size_t>(i)] = i;
    std::shuffle(tables.begin(), tables.end(), std::mt19937(7));
    const size_t block = 2 * static_cast<size_t>(kernels::cuda::kv_image_bytes(c.head_padded));
    const size_t stride = static_cast<size_t>(c.heads * c.head_size + 8), count = static_cast<size_t>(rows);
    positions_ = DeviceArray<int64_t>(positions);
    sequences_ = DeviceArray<int32_t>(sequences);
    tables_ = DeviceArray<int32_t>(tables);
    q_ = DeviceArray<uint16_t>(count * static_cast<size_t>(c.heads * c.head_padded));
    kv_ = DeviceArray<uint16_t>(block / 2 * static_cast<size_t>(pool * c.kv_heads));
    out_ = DeviceArray<uint16_t>(count * stride);
    expected_ = DeviceArray<uint16_t>(count * stride);
    bad_ = DeviceArray<uint8_t>(count);
    expected_bad_ = DeviceArray<uint8_t>(count);
    scratch_ = DeviceArray<uint8_t>(kernels::cuda::prefill_scratch_bytes(shape_, 132));
    fill_padded<<<512, 256>>>(q_.data(), q_.size(), c.head_size, c.head_padded, c.scale);
    fill_blocks<<<512, 256>>>(kv_.data(), 2 * pool * c.kv_heads, c.head_size, c.head_padded);
    call_.q = q_.data(), call_.positions = positions_.data(), call_.sequences = sequences_.data();
    call_.rows = rows, call_.runs = runs_.data(), call_.run_count = static_cast<int>(runs_.size());
    call_.kv = {reinterpret_cast<std::byte*>(kv_.data()), tables_.data(), blocks,
                block * static_cast<size_t>(c.kv_heads), block};
    call_.out_stride = static_cast<int64_t>(stride);
    test::cuda_ok(cudaDeviceSynchronize());
  }

  // strict: the reference is the running maximum, which is another definition.
  void expect(bool strict = false) {
    DeviceAttentionCall call = call_;
    call.out = expected_.data(), call.bad = reinterpret_cast<bool*>(expected_bad_.data());
    test::cuda_ok(cudaMemset(expected_.data(), 0xee, expected_.bytes()));
    const dim3 grid(static_cast<unsigned>(case_.heads), static_cast<unsigned>(call_.rows));
    reference<<<grid, 64>>>(shape_, call, strict);
    test::cuda_ok(cudaDeviceSynchronize());
  }
  void clear() { test::cuda_ok(cudaMemset(out_.data(), 0xee, out_.bytes())); }
  void run(const std::vector<DeviceRun>& runs) {
    DeviceAttentionCall call = call_;
    call.out = out_.data(), call.bad = reinterpret_cast<bool*>(bad_.data());
    test::cuda_ok(cudaMemset(scratch_.data(), 0xff, scratch_.bytes()));
    EXPECT_TRUE(kernels::cuda::prefill_serves(shape_));
    kernels::cuda::attention_prefill(nullptr, shape_, call, runs.data(), static_cast<int>(runs.size()), 132,
                                     scratch_.data());
    test::cuda_ok(cudaDeviceSynchronize());
  }
  unsigned long long wrong() const { return test::differing_words(out_.data(), expected_.data(), out_.bytes()); }
  std::vector<uint8_t> bad() const { return bad_.host(); }
  std::vector<uint8_t> expected_bad() const { return expected_bad_.host(); }
  const std::vector<DeviceRun>& runs() const { return runs_; }

 private:
  Case case_;
  AttentionShape shape_;
  std::vector<DeviceRun> runs_;
  DeviceArray<int64_t> positions_;
  DeviceArray<int32_t> sequences_, tables_;
  DeviceArray<uint16_t> q_, kv_, out_, expected_;
  DeviceArray<uint8_t> bad_, expected_bad_, scratch_;
  DeviceAttentionCall call_;
};

std::string name(const Case& c) {
  return "heads " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + " of " + std::to_string(c.head_size) +
         " window " + std::to_string(c.window) + " scale " + std::to_string(c.scale);
}

// Heads, windows, scores that move references and make keys far; runs that begin anywhere.
TEST(PrefillAttention, EveryShape) {
  const Runs runs = {{0, 70}, {63, 65}, {1000, 130}, {1023, 2}, {2047, 193}, {5, 1}, {3001, 64}};
  for (const Case& c : {Case{4, 2, 64, 64, 0, 1.0f}, Case{4, 1, 128, 128, 0, 1.0f}, Case{2, 2, 256, 256, 0, 1.0f},
                        Case{2, 1, 80, 96, 0, 1.0f}, Case{2, 1, 32, 32, 0, 8.0f}, Case{3, 1, 200, 224, 0, 4.0f},
                        Case{4, 2, 128, 128, 0, 25.0f}, Case{4, 2, 64, 64, 0, 60.0f}, Case{2, 1, 256, 256, 0, 12.0f},
                        Case{4, 2, 128, 128, 1, 1.0f}, Case{4, 2, 128, 128, 64, 4.0f}, Case{4, 2, 64, 64, 100, 1.0f},
                        Case{4, 2, 128, 128, 1025, 4.0f}, Case{2, 1, 256, 256, 700, 2.0f},
                        Case{4, 2, 128, 128, 3000, 8.0f}, Case{2, 2, 128, 128, 1 << 20, 1.0f}}) {
    Problem problem(c, runs);
    problem.expect();
    problem.clear();
    problem.run(problem.runs());
    EXPECT_EQ(problem.wrong(), 0u) << name(c);
    EXPECT_EQ(problem.bad(), problem.expected_bad()) << name(c);
  }
}

// Chunks cut anywhere, runs one by one, in any order: the same bytes.
TEST(PrefillAttention, Chunks) {
  for (const Case& c : {Case{4, 2, 128, 128, 0, 4.0f}, Case{4, 2, 64, 64, 900, 4.0f}, Case{2, 1, 256, 256, 0, 4.0f}}) {
    Problem problem(c, {{0, 1300}, {1500, 700}});
    problem.expect();
    problem.clear();
    problem.run(problem.runs());
    EXPECT_EQ(problem.wrong(), 0u) << name(c);
    problem.clear();
    std::mt19937 random(11);
    for (const DeviceRun& run : problem.runs()) {
      for (int row = run.row_begin; row < run.row_end;) {
        const int end = std::min<int>(run.row_end, row + 1 + static_cast<int>(random() % 300));
        const int64_t first = run.first_position + row - run.row_begin;
        problem.run({{run.sequence, row, end, first, first + end - row - 1}});
        row = end;
      }
    }
    EXPECT_EQ(problem.wrong(), 0u) << name(c) << " in chunks";
  }
}

// More runs and tiles than one launch takes.
TEST(PrefillAttention, ManyRuns) {
  Runs runs;
  for (int i = 0; i < 130; ++i) runs.push_back({i * 3, 1 + i % 5});
  for (int i = 0; i < 40; ++i) runs.push_back({i, 190 + i});
  Problem problem({2, 1, 64, 64, 0, 2.0f}, runs);
  problem.expect();
  problem.clear();
  problem.run(problem.runs());
  EXPECT_EQ(problem.wrong(), 0u);
}

// A row whose scores pass the limit is flagged, and only rows that the definition flags.
TEST(PrefillAttention, FlagsRowsPastTheLimit) {
  Problem problem({4, 2, 128, 128, 0, 250.0f}, {{0, 300}, {1000, 100}}, 60.0f);
  problem.expect();
  problem.run(problem.runs());
  const auto bad = problem.expected_bad();
  EXPECT_EQ(problem.bad(), bad);
  const auto flagged = std::count(bad.begin(), bad.end(), 1);
  EXPECT_GT(flagged, 0);
  EXPECT_LT(flagged, static_cast<long>(bad.size()));
}

// A strict running maximum gives other bytes: these numbers see the definition.
TEST(PrefillAttention, AnotherDefinitionDiffers) {
  Problem problem({4, 2, 128, 128, 0, 4.0f}, {{0, 500}});
  problem.expect(true);
  problem.clear();
  problem.run(problem.runs());
  EXPECT_GT(problem.wrong(), 100u);
}

}  // namespace
}  // namespace eadem
