// Linear layers, one thread: GMAC/s, and the GB/s at which packed weights are read, by set, numerics (and how int8
// weights are stored), layer and rows. It walks over copies of the layer that together are 256 MiB, so that it reads
// memory and not a cache; ceiling/* is what to compare with.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "kernels/kernel_set.h"
#include "numerics/int8.h"
#include "numerics/operand.h"
#include "numerics/shards.h"
#include "plan/linear_plan.h"

namespace eadem::bench {
namespace {

using kernels::KernelSet;
using kernels::LinearShape;
using numerics::Numerics;

struct Layer {
  const char* name;
  int n, k;
  bool row_parallel;
};

constexpr Layer kLayers[] = {
    {"smollm2-135m/qkv", 960, 576, false},      {"smollm2-135m/output", 576, 576, true},
    {"smollm2-135m/gate_up", 3072, 576, false}, {"smollm2-135m/down", 576, 1536, true},
    {"smollm2-135m/head", 49152, 576, false},   {"qwen3-0.6b/qkv", 4096, 1024, false},
    {"qwen3-0.6b/output", 1024, 2048, true},    {"qwen3-0.6b/gate_up", 6144, 1024, false},
    {"qwen3-0.6b/down", 1024, 3072, true},      {"qwen3-0.6b/head", 151936, 1024, false},
};
// What a layer is computed from; "int8" alone: weights that were quantised when they were read.
struct Weights {
  const char* name;
  Numerics numerics;
  kernels::Int8Weights stored = kernels::Int8Weights::kAny;
  bool minimum = false;
};

constexpr Weights kWeights[] = {{"fma32", Numerics::kFma32},
                                {"mma16", Numerics::kMma16},
                                {"int8", Numerics::kInt8},
                                {"int8-q8_0", Numerics::kInt8, kernels::Int8Weights::kHalves},
                                {"int8-q4_1", Numerics::kInt8, kernels::Int8Weights::kNibbles, true}};
constexpr int kRows[] = {1, 8, 16, 64, 512};
constexpr size_t kDecodeBytes = 256u << 20;

LinearShape shape_of(const Layer& layer, const Weights& weights) {
  LinearShape s;
  s.numerics = weights.numerics, s.n = layer.n, s.k = layer.k;
  s.stored = weights.stored, s.minimum = weights.minimum;
  const bool quantised = s.numerics == Numerics::kInt8 && s.stored == kernels::Int8Weights::kAny;
  s.group = quantised ? numerics::quantised_group(layer.k) : numerics::kStoredGroup;
  s.k_padded = static_cast<int>(numerics::round_up(layer.k, s.group));
  s.shards = layer.row_parallel ? numerics::shard_count(s.k_padded, s.group) : 1;
  return s;
}

std::vector<uint16_t> random_operands(size_t count, float scale) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> some(65521), all(count);
  for (auto& x : some) x = numerics::bf16_operand(normal(generator) * scale);
  for (size_t i = 0; i < count; ++i) all[i] = some[i % some.size()];
  return all;
}

void pack_random(const KernelSet& set, const LinearShape& s, std::byte* weights) {
  const auto k = static_cast<size_t>(s.k_padded);
  const std::vector<uint16_t> w = random_operands(k * 64 + 65521, 0.05f);
  std::vector<int8_t> q(k);
  std::vector<float> scale(static_cast<size_t>(s.groups()));
  for (int n = 0; n < s.n; ++n) {
    const uint16_t* row = w.data() + static_cast<size_t>(n) * 977 % (w.size() - k);
    if (s.numerics != Numerics::kInt8) {
      set.pack_operands(s, n, row, weights);
      continue;
    }
    for (int g = 0; g < s.groups(); ++g)
      scale[g] = numerics::int8_quantise(row + g * s.group, s.group, q.data() + g * s.group);
    if (s.stored == kernels::Int8Weights::kNibbles) {
      for (int8_t& x : q) x = static_cast<int8_t>(x & 15);
    }
    set.pack_int8(s, n, q.data(), scale.data(), s.minimum ? scale.data() : nullptr, weights);
  }
}

void linear(benchmark::State& state, const KernelSet& set, const Layer& layer, const Weights& stored, int rows) {
  const LinearShape s = shape_of(layer, stored);
  const size_t bytes = (set.linear_bytes(s) + 63) / 64 * 64;
  const size_t copies = (kDecodeBytes + bytes - 1) / bytes;
  auto allocated = Buffer::allocate(bytes * copies, "the weights");
  if (!allocated.ok()) return state.SkipWithError("not enough memory for the weights");
  Buffer weights = std::move(allocated.value());
  pack_random(set, s, weights.data());
  for (size_t i = 1; i < copies; ++i) memcpy(weights.data() + i * bytes, weights.data(), bytes);

  const size_t inputs = static_cast<size_t>(rows) * static_cast<size_t>(s.k_padded);
  const size_t outputs = static_cast<size_t>(rows) * static_cast<size_t>(s.n) * sizeof(float);
  // As in the engine, rows begin at cache lines.
  Buffer x = std::move(Buffer::allocate(inputs * sizeof(uint16_t), "x")).value();
  Buffer q = std::move(Buffer::allocate(inputs, "q")).value();
  Buffer y = std::move(Buffer::allocate(outputs, "y")).value();
  memcpy(x.data(), random_operands(inputs, 1.0f).data(), x.size());
  std::vector<float> scale(inputs / static_cast<size_t>(s.group));
  std::vector<int32_t> sum(scale.size());
  for (size_t g = 0; g < scale.size(); ++g) {
    const size_t at = g * static_cast<size_t>(s.group);
    scale[g] = numerics::int8_quantise(x.as<uint16_t>() + at, s.group, q.as<int8_t>() + at);
  }
  kernels::LinearCall call;
  call.shape = &s, call.x = {x.as<uint16_t>(), q.as<int8_t>(), scale.data(), sum.data()};
  call.y = y.as<float>(), call.y_stride = s.n;

  const plan::LinearPlan cut = plan::plan_linear(s, rows, 1);
  size_t copy = 0;
  for (auto _ : state) {
    call.weights = weights.data() + copy * bytes;
    copy = (copy + 1) % copies;
    for (int i = 0; i < plan::tile_count(s, rows, cut); ++i) set.linear(call, plan::tile_at(s, rows, cut, i));
    benchmark::ClobberMemory();
  }
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GMAC"] = benchmark::Counter(1e-9 * s.n * s.k * rows, rate);
  state.counters["GB"] = benchmark::Counter(1e-9 * static_cast<double>(bytes), rate);
}

const bool registered = [] {
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported() || set->name == "reference") continue;
    for (const Weights& weights : kWeights) {
      for (const Layer& layer : kLayers) {
        for (const int rows : kRows) {
          const std::string name = "linear/" + std::string(set->name) + "/" + weights.name + "/" + layer.name +
                                   "/rows:" + std::to_string(rows);
          benchmark::RegisterBenchmark(name.c_str(), linear, std::cref(*set), std::cref(layer), std::cref(weights),
                                       rows)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace eadem::bench
