// The sampler: time of one row of 151,936 logits (Qwen's vocabulary), one thread, by set, by what a request asks and by
// how its logits lie. Each row is fresh to the first-level cache, as the head leaves it.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "core/fp_env.h"
#include "sampler/sampler.h"

namespace eadem::bench {
namespace {

using kernels::KernelSet;

constexpr int kVocab = 151936;
constexpr int kRows = 4;

struct Spread {
  const char* name;
  float deviation;
};
constexpr Spread kSpreads[] = {{"peaked", 6.0f}, {"usual", 3.0f}, {"flat", 0.01f}};

struct Request {
  const char* name;
  float temperature, top_p;
  int top_k, logprobs;
};
constexpr Request kRequests[] = {{"greedy", 0.0f, 1.0f, 0, -1},        {"greedy_logprobs", 0.0f, 1.0f, 0, 5},
                                 {"seeded", 1.0f, 1.0f, 0, -1},        {"seeded_temperature", 0.8f, 1.0f, 0, -1},
                                 {"seeded_top_p", 0.8f, 0.95f, 0, -1}, {"seeded_top_k", 0.8f, 0.95f, 50, -1}};

void draw(benchmark::State& state, const KernelSet& set, const Request& request, const Spread& spread) {
  const FpEnvironment environment;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, spread.deviation);
  std::vector<float> logits(size_t{kRows} * kVocab);
  for (float& x : logits) x = normal(generator);
  SamplingParams params;
  params.temperature = request.temperature, params.top_p = request.top_p, params.top_k = request.top_k;
  sampler::Sampler sampler(set, kVocab);
  sampler::Draw draw;
  draw.params = &params;
  draw.logprobs = request.logprobs;
  for (auto _ : state) {
    draw.logits = logits.data() + draw.position % kRows * kVocab;
    draw.seed = 17;
    ++draw.position;
    auto drawn = sampler.draw(draw);
    benchmark::DoNotOptimize(drawn);
  }
}

const bool registered = [] {
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported() || set->name == "reference") continue;
    for (const Request& request : kRequests) {
      for (const Spread& spread : kSpreads) {
        const std::string name = "sampler/" + std::string(set->name) + "/" + request.name + "/" + spread.name;
        benchmark::RegisterBenchmark(name.c_str(), draw, std::cref(*set), std::cref(request), std::cref(spread))
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace eadem::bench
