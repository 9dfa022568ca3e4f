// Attention of one layer, one thread, by set, tree, model and rows. Decode (rows:1) reads a sequence's keys and values
// once for each group of heads: GB is their operands' bytes, over copies of the cache that together are 256 MiB, so
// that memory is read and not a cache. Prefill: 512 rows that end at the context, GFLOP counts two for each
// multiplication of a visible key or value.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "kernels/kernel_set.h"
#include "numerics/operand.h"

namespace eadem::bench {
namespace {

using kernels::AttentionShape;
using kernels::KernelSet;
using numerics::kKvBlock;
using numerics::Numerics;

struct Model {
  const char* name;
  int heads, kv_heads, head_size;
};

constexpr Model kModels[] = {{"smollm2-135m", 9, 3, 64}, {"qwen3-0.6b", 16, 8, 128}, {"llama3-8b", 32, 8, 128}};
struct Work {
  int rows;
  int64_t context;
};
constexpr Work kWork[] = {{1, 128}, {1, 1024}, {1, 4096}, {1, 32768}, {512, 512}, {512, 4096}};
constexpr size_t kDecodeBytes = 256u << 20;

std::vector<uint16_t> random_operands(size_t count, float scale) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> x(count);
  for (auto& element : x) element = numerics::bf16_operand(normal(generator) * scale);
  return x;
}

AttentionShape shape_of(const Model& model, Numerics tree) {
  AttentionShape s;
  s.numerics = tree, s.heads = model.heads, s.kv_heads = model.kv_heads, s.head_size = model.head_size;
  s.head_padded = numerics::padded_to_leaf(model.head_size);
  s.c = static_cast<float>(1.4426950408889634 / __builtin_sqrt(static_cast<double>(model.head_size)));
  return s;
}

// One sequence's cache, and copies of it.
struct Caches {
  Buffer memory;
  std::vector<int32_t> table;
  std::vector<kernels::KvView> views;
};

Caches make_caches(const KernelSet& set, const AttentionShape& s, const Work& work) {
  Caches c;
  const int64_t blocks = (work.context + kKvBlock - 1) / kKvBlock;
  const size_t head_bytes = set.kv_bytes(s), block_bytes = head_bytes * static_cast<size_t>(s.kv_heads);
  const size_t bytes = block_bytes * static_cast<size_t>(blocks);
  const size_t copies = work.rows == 1 ? kDecodeBytes / bytes : 1;
  auto allocated = Buffer::allocate(bytes * copies, "the KV caches");
  if (!allocated.ok()) return c;
  c.memory = std::move(allocated.value());
  for (int64_t b = 0; b < blocks; ++b) c.table.push_back(static_cast<int32_t>(b));
  for (size_t i = 0; i < copies; ++i) {
    c.views.push_back({c.memory.data() + i * bytes, c.table.data(), block_bytes, head_bytes});
  }
  const size_t head = static_cast<size_t>(s.head_size);
  const std::vector<uint16_t> k = random_operands(head * 997, 1.0f), v = random_operands(head * 991, 1.0f);
  for (int64_t j = 0; j < work.context; ++j) {
    for (int h = 0; h < s.kv_heads; ++h) {
      const size_t row = static_cast<size_t>(j * s.kv_heads + h);
      set.kv_write(s, c.views[0].block(j / kKvBlock, h), static_cast<int>(j % kKvBlock), k.data() + row % 997 * head,
                   v.data() + row % 991 * head);
    }
  }
  for (size_t i = 1; i < copies; ++i) memcpy(c.memory.data() + i * bytes, c.memory.data(), bytes);
  return c;
}

// What one call needs besides the cache: rows that end at the context.
struct Rows {
  std::vector<uint16_t> q, out;
  std::vector<int64_t> positions;
  std::vector<float> m, l, o, part_m, part_l, part_o;
  std::vector<uint16_t*> outputs;
};

Rows make_rows(const AttentionShape& s, const Work& work) {
  Rows r;
  const size_t count = static_cast<size_t>(work.rows * s.group());
  r.q = random_operands(static_cast<size_t>(work.rows * s.heads * s.head_padded), 1.0f);
  for (int64_t i = work.context - work.rows; i < work.context; ++i) r.positions.push_back(i);
  for (auto* x : {&r.m, &r.l, &r.part_m, &r.part_l}) x->resize(count);
  for (auto* x : {&r.o, &r.part_o}) x->resize(count * static_cast<size_t>(s.head_padded));
  r.out.resize(count * static_cast<size_t>(s.head_size));
  for (size_t i = 0; i < count; ++i) r.outputs.push_back(r.out.data() + i * static_cast<size_t>(s.head_size));
  return r;
}

void attend(const KernelSet& set, const AttentionShape& s, const Work& work, const kernels::KvView& view, Rows& r) {
  bool bad[512] = {};
  const int count = work.rows * s.group();
  const kernels::SplitResult state{r.m.data(), r.l.data(), r.o.data(), bad};
  const kernels::SplitResult part{r.part_m.data(), r.part_l.data(), r.part_o.data(), bad};
  const kernels::AttentionRows rows{r.q.data(), r.positions.data(), work.rows, view};
  for (int head = 0; head < s.kv_heads; ++head) {
    set.attention_split(s, rows, head, 0, state);
    for (int64_t split = 1; split * numerics::kSplit < work.context; ++split) {
      set.attention_split(s, rows, head, split, part);
      set.attention_merge(s, count, state, part);
    }
    set.attention_finish(s, count, state, r.outputs.data());
  }
}

void attention(benchmark::State& state, const KernelSet& set, const Model& model, Numerics tree, const Work& work) {
  const AttentionShape s = shape_of(model, tree);
  const Caches caches = make_caches(set, s, work);
  if (caches.views.empty()) return state.SkipWithError("not enough memory for the KV caches");
  Rows rows = make_rows(s, work);
  size_t copy = 0;
  for (auto _ : state) {
    attend(set, s, work, caches.views[copy], rows);
    copy = (copy + 1) % caches.views.size();
    benchmark::ClobberMemory();
  }
  double pairs = 0;  // of rows and visible keys
  for (const int64_t i : rows.positions) pairs += static_cast<double>(i + 1);
  const double operand_bytes = 4.0 * s.head_size * s.kv_heads * static_cast<double>(work.context);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOP"] = benchmark::Counter(4e-9 * s.head_size * s.heads * pairs, rate);
  state.counters["GB"] = benchmark::Counter(1e-9 * operand_bytes, rate);
}

const bool registered = [] {
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported() || set->name == "reference") continue;
    for (const Numerics tree : {Numerics::kFma32, Numerics::kMma16}) {
      for (const Model& model : kModels) {
        for (const Work& work : kWork) {
          const std::string name = "attention/" + std::string(set->name) + "/" +
                                   std::string(numerics::short_name(tree)) + "/" + model.name +
                                   "/rows:" + std::to_string(work.rows) + "/context:" + std::to_string(work.context);
          benchmark::RegisterBenchmark(name.c_str(), attention, std::cref(*set), std::cref(model), tree,
                                       std::cref(work))
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace eadem::bench
