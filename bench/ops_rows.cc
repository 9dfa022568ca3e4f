// The steps of one row between linear layers, one thread: time of a row, in cache as the engine leaves it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "numerics/operand.h"

namespace eadem::bench {
namespace {

using kernels::KernelSet;

std::vector<float> random_floats(int count, float scale) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (auto& element : x) element = normal(generator) * scale;
  return x;
}

void rms_norm(benchmark::State& state, const KernelSet& set) {
  const int n = static_cast<int>(state.range(0));
  const auto x = random_floats(n, 1.0f), weight = random_floats(n, 1.0f);
  std::vector<uint16_t> y(x.size());
  for (auto _ : state) benchmark::DoNotOptimize(set.rms_norm(x.data(), weight.data(), n, n, 1e-5f, y.data()));
}

void swiglu(benchmark::State& state, const KernelSet& set) {
  const int n = static_cast<int>(state.range(0));
  const auto x = random_floats(2 * n, 2.0f);
  std::vector<uint16_t> y(static_cast<size_t>(n));
  for (auto _ : state) benchmark::DoNotOptimize(set.swiglu(x.data(), n, n, y.data()));
}

// Heads of q beside half as many of k and of v, with q/k norm and full rope.
void split_qkv(benchmark::State& state, const KernelSet& set) {
  kernels::QkvShape s;
  s.heads = static_cast<int>(state.range(0)), s.kv_heads = s.heads / 2;
  s.head_size = s.head_padded = s.rotary = static_cast<int>(state.range(1));
  const auto norm = random_floats(s.head_size, 1.0f), angles = random_floats(s.head_size, 0.5f);
  s.q_norm = s.k_norm = norm.data(), s.eps = 1e-6f;
  const int kv = s.kv_heads * s.head_size;
  const auto before = random_floats(s.heads * s.head_size + 2 * kv, 1.0f);
  auto qkv = before;
  std::vector<uint16_t> q(static_cast<size_t>(s.heads * s.head_size)), k(static_cast<size_t>(kv)), v(k.size());
  for (auto _ : state) {
    std::copy(before.begin(), before.end(), qkv.begin());  // they are overwritten
    benchmark::DoNotOptimize(set.split_qkv(s, qkv.data(), angles.data(), angles.data(), q.data(), k.data(), v.data()));
  }
}

void quantise(benchmark::State& state, const KernelSet& set) {
  const int n = static_cast<int>(state.range(0));
  std::vector<uint16_t> x;
  for (const float element : random_floats(n, 1.0f)) x.push_back(numerics::bf16_operand(element));
  std::vector<int8_t> q(x.size());
  std::vector<float> scale(x.size());
  std::vector<int32_t> sum(x.size());
  for (auto _ : state) {
    set.quantise(x.data(), n, 32, q.data(), scale.data(), sum.data());
    benchmark::ClobberMemory();
  }
}

void log_sum(benchmark::State& state, const KernelSet& set) {
  const int n = static_cast<int>(state.range(0));
  const auto x = random_floats(n, 4.0f);
  for (auto _ : state) benchmark::DoNotOptimize(set.log_sum(x.data(), n));
}

const bool registered = [] {
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported()) continue;
    const auto add = [set](const char* op, void (*run)(benchmark::State&, const KernelSet&)) {
      const std::string name = "rows/" + std::string(set->name) + "/" + op;
      return benchmark::RegisterBenchmark(name.c_str(), run, std::cref(*set));
    };
    add("rms_norm", rms_norm)->Arg(576)->Arg(1024)->Arg(4096);
    add("swiglu", swiglu)->Arg(1536)->Arg(3072)->Arg(14336);
    add("split_qkv", split_qkv)->Args({9, 64})->Args({16, 128});
    add("quantise", quantise)->Arg(576)->Arg(4096);
    add("log_sum", log_sum)->Arg(49152)->Arg(151936);
  }
  return true;
}();

}  // namespace
}  // namespace eadem::bench
