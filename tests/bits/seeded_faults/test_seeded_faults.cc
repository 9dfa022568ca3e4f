// Each seeded fault changes bits in the situation that it is about, and in no other: what an acceptance matrix finds
// under it is then the fault and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "engine/engine.h"
#include "support/engine_run.h"
#include "support/faults/fault.h"
#include "support/tiny_llama.h"
#include "weights/checkpoint.h"

namespace eadem::faults {
namespace {

using engine::SequenceRequest;
using testing::Answers;

const weights::Checkpoint& checkpoint() {
  static const test::TempDirectory folder;
  static const weights::Checkpoint opened = [] {
    testing::write_tiny_llama(folder.path(), 1, 192);  // six leaves or scale groups: two ways to sum them
    return weights::Checkpoint::open(folder.path()).value();
  }();
  return opened;
}

std::vector<int32_t> tokens(size_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<int32_t> all(count);
  for (int32_t& token : all) token = static_cast<int32_t>(rng() % 211);
  return all;
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

SequenceRequest ask(std::vector<int32_t> prompt, float temperature = 0.0f, float top_p = 1.0f) {
  SequenceRequest request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = 12;
  request.sampling.temperature = temperature;
  request.sampling.top_p = top_p;
  request.sampling.logprobs = 2;
  request.seed = 7;
  request.kv_hash = true;
  return request;
}

// An engine, and the requests that it gets: all of a round at once, one round after the other.
struct Situation {
  std::string name;
  std::vector<std::vector<SequenceRequest>> rounds;
  int threads = 1, chunk = 1000, blocks = 64;
  bool prefix = false;
  int preempt = 0;
  bool async = false;
  const kernels::KernelSet* set = nullptr;
  numerics::Numerics numerics = numerics::Numerics::kFma32;
};

std::vector<std::string> run(const Situation& situation, Fault* fault) {
  model::ModelOptions model_options;
  model_options.numerics = situation.numerics;
  model_options.threads = situation.threads;
  model_options.kernels = situation.set != nullptr ? situation.set : &kernels::best_kernel_set();
  model_options.max_rows = 1000;
  const auto model = model::Model::load(checkpoint(), model_options).value();
  install(fault);
  engine::Options options;
  options.max_batch = 32;
  options.prefill_chunk = situation.chunk;
  options.kv_blocks = situation.blocks;
  options.prefix_cache = situation.prefix;
  options.force_preempt = situation.preempt;
  options.async_scheduling = situation.async;
  auto engine = engine::Engine::create(*model, options).value();
  std::vector<std::string> all;
  for (const auto& round : situation.rounds) {
    for (const auto& answer : testing::run_all(*engine, round)) {
      EXPECT_EQ(answer->outcome.error, "") << situation.name;
      all.push_back(testing::digest(*answer));
    }
  }
  return all;
}

// Bits move under the fault in `where`, and the fault says that it acted; in none of `elsewhere` does either happen.
void expect_only(std::string_view name, const std::vector<Situation>& where, const std::vector<Situation>& elsewhere) {
  Fault* const fault = find(name);
  ASSERT_NE(fault, nullptr) << name;
  for (const Situation& situation : where) {
    const auto truth = run(situation, nullptr);
    EXPECT_EQ(fired(), 0u);
    EXPECT_NE(run(situation, fault), truth) << name << ": " << situation.name;
    EXPECT_GT(fired(), 0u) << name << ": " << situation.name;
    install(nullptr);
  }
  for (const Situation& situation : elsewhere) {
    const auto truth = run(situation, nullptr);
    EXPECT_EQ(run(situation, fault), truth) << name << ": " << situation.name;
    EXPECT_EQ(fired(), 0u) << name << ": " << situation.name;
    install(nullptr);
  }
}

std::vector<std::vector<SequenceRequest>> one_by_one(const std::vector<SequenceRequest>& requests) {
  std::vector<std::vector<SequenceRequest>> rounds;
  for (const SequenceRequest& request : requests) rounds.push_back({request});
  return rounds;
}

std::vector<SequenceRequest> several(size_t count, size_t length, float temperature = 0.0f) {
  std::vector<SequenceRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    requests.push_back(ask(tokens(length, static_cast<uint32_t>(i) + 1), temperature));
  }
  return requests;
}

TEST(SeededFaults, AreTenAndHaveTheirOwnNames) {
  std::set<std::string_view> names;
  for (const Fault* fault : all()) {
    EXPECT_EQ(find(fault->name), fault);
    EXPECT_FALSE(fault->says.empty());
    names.insert(fault->name);
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(find("no-such-fault"), nullptr);
}

TEST(SeededFaults, BatchSplitNeedsManyRows) {
  for (const auto numerics : numerics::kAllNumerics) {
    Situation many{"16 requests at once", {several(16, 4)}}, few{"one by one", one_by_one(several(16, 4))};
    many.numerics = few.numerics = numerics;
    expect_only("batch-split", {many}, {few});
  }
}

TEST(SeededFaults, NeighbourNoiseNeedsANeighbour) {
  Situation chunks{"alone in chunks", one_by_one(several(4, 90))};
  chunks.chunk = 16;
  Situation fleet{"8 requests at once, asynchronously", {several(8, 20)}};
  fleet.async = true;
  expect_only("neighbour-noise", {{"8 requests at once", {several(8, 20)}}, fleet},
              {{"one by one", one_by_one(several(8, 20))}, chunks});
}

TEST(SeededFaults, StaleBlockNeedsABlockThatIsUsedAgain) {
  Situation again{"one after the other in few blocks", one_by_one(several(3, 40))};
  again.blocks = 2;
  Situation evicted{"blocks that the prefix cache had", one_by_one(several(6, 150))};
  evicted.blocks = 4, evicted.prefix = true;
  expect_only("stale-block", {again, evicted},
              {{"one request", {several(1, 40)}},
               {"at once, each in its own blocks", {several(4, 40)}},
               {"blocks with the same content", one_by_one({ask(tokens(40, 1)), ask(tokens(40, 1))})}});
}

TEST(SeededFaults, ChunkPositionNeedsASecondChunk) {
  Situation chunked{"a prompt in chunks", {several(1, 90)}}, warm{"a cached prefix"};
  chunked.chunk = 16;
  warm.prefix = true;
  warm.rounds = one_by_one({ask(tokens(70, 1)), ask(joined(tokens(70, 1), tokens(9, 2)))});
  expect_only("chunk-position", {chunked}, {{"whole prompts", {several(4, 90)}}, warm});
}

TEST(SeededFaults, CacheLineageNeedsABlockAfterAnotherPrefix) {
  const auto first = tokens(64, 1), second = tokens(64, 2), shared = tokens(64, 3);
  const auto after = [&](const std::vector<int32_t>& start, uint32_t end) {
    return ask(joined(joined(start, shared), tokens(5, end)));
  };
  // The third finds its first block, then that of the first request. A block may also be found at another place.
  Situation crossed{"a block after two prefixes", one_by_one({after(first, 4), after(second, 5), after(second, 6)})};
  Situation moved{"a block at the start", one_by_one({after(first, 4), ask(joined(shared, tokens(5, 7)))})};
  Situation own{"a prefix of its own", one_by_one({after(first, 4), after(first, 5), after(first, 6)})};
  Situation cold = crossed;
  cold.name = "no prefix cache";
  crossed.prefix = moved.prefix = own.prefix = true;
  expect_only("cache-lineage", {crossed, moved}, {cold, own});
}

TEST(SeededFaults, SlotSeedNeedsAPlaceAndADraw) {
  expect_only("slot-seed", {{"drawn together", {several(4, 20, 1.0f)}}},
              {{"drawn one by one", one_by_one(several(4, 20, 1.0f))}, {"greedy together", {several(4, 20)}}});
}

TEST(SeededFaults, BatchTopPNeedsAnotherTopP) {
  const std::vector<SequenceRequest> mixed = {ask(tokens(20, 1), 2.0f, 0.3f), ask(tokens(20, 2), 2.0f, 1.0f)};
  const std::vector<SequenceRequest> alike = {ask(tokens(20, 1), 2.0f, 0.3f), ask(tokens(20, 2), 2.0f, 0.3f)};
  const std::vector<SequenceRequest> greedy = {ask(tokens(20, 1), 0.0f, 0.3f), ask(tokens(20, 2), 1.0f, 1.0f)};
  expect_only("batch-top-p", {{"beside a larger one", {mixed}}},
              {{"one by one", one_by_one(mixed)}, {"beside its equal", {alike}}, {"a greedy one", {greedy}}});
}

TEST(SeededFaults, ThreadSumNeedsAnEvenNumberOfThreads) {
  Situation two{"2 threads", {several(4, 20)}}, three = two, one = two;
  two.threads = 2, three.threads = 3;
  expect_only("thread-sum", {two}, {one, three});
}

TEST(SeededFaults, FirstRequestIsTheFirst) {
  auto requests = several(4, 20);
  Situation all{"four requests", one_by_one(requests)};
  const auto truth = run(all, nullptr), faulty = run(all, find("first-request"));
  EXPECT_GT(fired(), 0u);
  install(nullptr);
  EXPECT_NE(faulty[0], truth[0]);
  EXPECT_TRUE(std::equal(faulty.begin() + 1, faulty.end(), truth.begin() + 1));
}

TEST(SeededFaults, MissingRoundingIsOneKernelSets) {
  std::vector<Situation> where, elsewhere;
  for (const auto* set : kernels::all_kernel_sets()) {
    if (!set->supported()) continue;
    Situation situation{std::string(set->name), {several(4, 20)}};
    situation.set = set;
    (set->name == "avx2" || set->name == "neon" ? where : elsewhere).push_back(situation);
  }
  if (where.empty()) GTEST_SKIP() << "this machine runs neither avx2 nor neon";
  expect_only("missing-rounding", where, elsewhere);
}

}  // namespace
}  // namespace eadem::faults
