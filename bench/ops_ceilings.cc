// What one thread of the machine can do, beside the benchmarks of the ops.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <utility>

#include "ceilings.h"
#include "core/buffer.h"

namespace eadem::bench {
namespace {

void fma_peak(benchmark::State& state, int lanes) {
  constexpr int64_t kSteps = 1 << 18;
  for (auto _ : state) benchmark::DoNotOptimize(run_fma(lanes, kSteps));
  state.counters["GMAC"] = benchmark::Counter(static_cast<double>(kSteps * kChains * lanes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void read_bandwidth(benchmark::State& state) {
  auto allocated = Buffer::allocate(256u << 20, "the memory to read");
  if (!allocated.ok()) return state.SkipWithError("not enough memory");
  Buffer buffer = std::move(allocated.value());
  memset(buffer.data(), 1, buffer.size());
  for (auto _ : state) benchmark::DoNotOptimize(read_all(buffer.data(), buffer.size()));
  state.counters["GB"] = benchmark::Counter(0x1p28 * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  for (int lanes = fma_lanes(); lanes >= 4 && lanes >= fma_lanes() / 2; lanes /= 2) {
    const std::string name = "ceiling/fma/lanes:" + std::to_string(lanes);
    benchmark::RegisterBenchmark(name.c_str(), fma_peak, lanes)->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("ceiling/read/256MiB", read_bandwidth)->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace eadem::bench
