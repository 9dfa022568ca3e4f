// A step of the engine allocates nothing once its memory has grown to what the requests need: every allocation of the
// program is counted, in all its threads. The prefix cache is off: it makes a record of each block of 64 positions that
// was filled.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "engine/engine.h"
#include "support/tiny_llama.h"
#include "weights/checkpoint.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace eadem::engine {
namespace {

struct Counting final : Listener {
  int tokens = 0;
  bool on_token(const SampledToken&, bool) override { return ++tokens < 1000; }
  void on_prompt(std::vector<SampledToken>) override {}
  void on_finish(const Outcome&) override {}
};

SequenceRequest ask(uint32_t seed, int prompt) {
  std::mt19937 rng(seed);
  SequenceRequest r;
  for (int i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng() % 211));
  r.sampling.max_tokens = 200;
  r.sampling.ignore_eos = true;
  r.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.8f;
  r.sampling.top_p = seed % 4 == 1 ? 0.9f : 1.0f;
  r.sampling.top_k = seed % 4 == 3 ? 20 : 0;
  r.seed = seed;
  return r;
}

// Allocations of 50 steps in which four sequences draw a token each, one of them beyond a split of attention.
int64_t allocations_of_steps(numerics::Numerics numerics, int threads, bool async) {
  test::TempDirectory folder;
  testing::write_tiny_llama(folder.path());
  const auto checkpoint = std::move(weights::Checkpoint::open(folder.path())).value();
  model::ModelOptions model_options;
  model_options.numerics = numerics;
  model_options.threads = threads;
  model_options.kernels = &kernels::best_kernel_set();
  model_options.max_rows = 512;
  const auto model = std::move(model::Model::load(checkpoint, model_options)).value();
  Options options;
  options.max_batch = 4;
  options.prefill_chunk = 512;
  options.kv_blocks = 64;
  options.prefix_cache = false;
  options.async_scheduling = async;
  const auto engine = std::move(Engine::create(*model, options)).value();
  Counting listeners[4];
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(engine->submit(ask(i, i == 0 ? 1100 : 20), &listeners[i]).ok());
  while (listeners[0].tokens < 20) engine->step();
  const int drawn = listeners[0].tokens;
  const int64_t before = allocations.load();
  for (int i = 0; i < 50; ++i) engine->step();
  const int64_t made = allocations.load() - before;
  EXPECT_EQ(listeners[0].tokens - drawn, 50);
  return made;
}

TEST(Allocations, AStepMakesNone) {
  using numerics::Numerics;
  for (const Numerics numerics : {Numerics::kFma32, Numerics::kInt8, Numerics::kMma16}) {
    for (const int threads : {1, 2}) {
      for (const bool async : {false, true}) {
        EXPECT_EQ(allocations_of_steps(numerics, threads, async), 0)
            << numerics::full_name(numerics) << ", " << threads << " threads" << (async ? ", asynchronous" : "");
      }
    }
  }
}

// The negative control.
TEST(Allocations, AreCounted) {
  const int64_t before = allocations.load();
  auto kept = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(allocations.load() - before, 2);
}

}  // namespace
}  // namespace eadem::engine
