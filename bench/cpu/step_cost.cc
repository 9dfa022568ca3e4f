// What a step costs beside its kernels. JSON on stdout.
//
//   bench_step_cost MODEL [THREADS] [SEQUENCES]
//
// An engine decodes with a kernel set whose every function takes its own time: what of the threads' time in a step was
// spent in none of them is the engine, the scheduler, the sampler's own code, handing out tasks, and waiting for the
// other threads. The clock is read twice a call, which counts as the step's cost: the share is an upper bound.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kernels/kernel_set.h"
#include "model/model.h"

namespace {

using namespace eadem;  // NOLINT
using kernels::KernelSet;
using Clock = std::chrono::steady_clock;

std::atomic<int64_t> kernel_time{0};  // nanoseconds, of all threads

struct TakeTime {
  Clock::time_point start = Clock::now();
  ~TakeTime() {
    const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    kernel_time.fetch_add(taken.count(), std::memory_order_relaxed);
  }
};

template <auto kMember>
struct Timed;
template <class R, class... A, R (*KernelSet::*kMember)(A...)>
struct Timed<kMember> {
  static R call(A... arguments) {
    const TakeTime time;
    return (kernels::best_kernel_set().*kMember)(arguments...);
  }
};

template <auto... kMembers>
void time_calls(KernelSet& set) {
  const auto time_one = []<auto kMember>(KernelSet& of) {
    if (of.*kMember != nullptr) of.*kMember = Timed<kMember>::call;
  };
  (time_one.template operator()<kMembers>(set), ...);
}

const KernelSet& timed_set() {
  static const KernelSet set = [] {
    KernelSet timed = kernels::best_kernel_set();
    time_calls<&KernelSet::linear, &KernelSet::linear_swiglu, &KernelSet::kv_write, &KernelSet::kv_write_rows,
               &KernelSet::attention_split, &KernelSet::attention_merge, &KernelSet::attention_finish,
               &KernelSet::rms_norm, &KernelSet::split_qkv, &KernelSet::swiglu, &KernelSet::quantise,
               &KernelSet::log_sum, &KernelSet::largest>(timed);
    return timed;
  }();
  return set;
}

template <class T>
T check(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "bench_step_cost: %s\n", result.error().message.c_str());
  std::exit(2);
}

struct Nobody final : engine::Listener {
  void on_prompt(std::vector<SampledToken>) override {}
  bool on_token(const SampledToken&, bool) override { return true; }
  void on_finish(const engine::Outcome&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: bench_step_cost MODEL [THREADS] [SEQUENCES]\n");
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : 2, sequences = argc > 3 ? std::atoi(argv[3]) : 1;
  constexpr int kWarm = 20, kSteps = 100;
  const auto checkpoint = check(weights::Checkpoint::open(argv[1]));
  model::ModelOptions options;
  options.numerics = model::default_numerics(checkpoint);
  options.kernels = &timed_set();
  options.threads = std::max(1, threads);
  const auto model = check(model::Model::load(checkpoint, options));
  engine::Options engine_options;
  engine_options.max_batch = std::max(1, sequences);
  const auto engine = check(engine::Engine::create(*model, engine_options));
  Nobody nobody;
  for (int i = 0; i < engine_options.max_batch; ++i) {
    engine::SequenceRequest request;
    for (int token = 0; token < 16; ++token) request.prompt.push_back(100 + 37 * i + token);
    request.sampling.max_tokens = kWarm + kSteps + 16;
    request.sampling.ignore_eos = true;
    check(engine->submit(std::move(request), &nobody));
  }
  for (int step = 0; step < kWarm; ++step) engine->step();
  struct Cost {
    double step, beside;  // milliseconds; share
  };
  std::vector<Cost> costs;
  for (int step = 0; step < kSteps; ++step) {
    kernel_time = 0;
    const auto start = Clock::now();
    engine->step();
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    const double all = taken.count() * model->pool().threads();
    costs.push_back({taken.count() * 1e-6, 1.0 - static_cast<double>(kernel_time) / all});
  }
  const auto by_share = [](const Cost& a, const Cost& b) { return a.beside < b.beside; };
  std::sort(costs.begin(), costs.end(), by_share);
  const Cost median = costs[costs.size() / 2];
  const nlohmann::ordered_json report = {{"numerics", numerics::full_name(options.numerics)},
                                         {"isa", timed_set().name},
                                         {"threads", model->pool().threads()},
                                         {"sequences", engine_options.max_batch},
                                         {"step_ms", median.step},
                                         {"beside_kernels", median.beside},
                                         {"beside_kernels_least", costs.front().beside}};
  std::printf("%s\n", report.dump().c_str());
  return 0;
}
