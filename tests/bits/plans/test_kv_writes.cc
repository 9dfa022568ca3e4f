// Keys and values of rows that go to their blocks together lie as they do when each goes alone.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "core/buffer.h"
#include "numerics/operand.h"
#include "ops/rows.h"

namespace eadem {
namespace {

using kernels::KernelSet;
using numerics::Numerics;

// Rows of three sequences, from odd positions on and over the ends of blocks, whose keys and values go to one pool.
struct WrittenRows {
  std::vector<uint16_t> q;
  std::vector<std::byte> blocks;
  bool operator==(const WrittenRows&) const = default;
};

WrittenRows write_rows(const KernelSet& set, const kernels::AttentionShape& shape, int threads, int64_t shift) {
  constexpr int kSequences = 3, kBlocks = 4, kRows[kSequences] = {1, 40, 150};
  const int64_t first[kSequences] = {77, 5, 61 + shift};
  const kernels::QkvShape qkv_shape{shape.heads, shape.kv_heads, shape.head_size, shape.head_padded, 8};
  const int width = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  std::vector<int32_t> sequences, table(kSequences * kBlocks);
  std::vector<int64_t> positions;
  for (int i = 0; i < kSequences; ++i) {
    for (int row = 0; row < kRows[i]; ++row) sequences.push_back(i), positions.push_back(first[i] + row);
  }
  const size_t rows = positions.size();
  std::mt19937_64 random(11);
  std::vector<float> qkv(rows * width), angles(2 * rows * 4);
  for (float& x : qkv)
    x = std::ldexp(static_cast<float>(random() % 4096) - 2048.0f, static_cast<int>(random() % 20) - 10);
  for (float& x : angles) x = static_cast<float>(random() % 4096) / 4096.0f;

  const size_t head = set.kv_bytes(shape), block = head * static_cast<size_t>(shape.kv_heads);
  Buffer pool_memory = Buffer::allocate(block * table.size(), "a test's blocks").value();
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>((i * 7 + 3) % table.size());
  std::vector<kernels::KvView> views;
  for (int i = 0; i < kSequences; ++i) views.push_back({pool_memory.data(), table.data() + i * kBlocks, block, head});
  for (size_t b = 0; b < table.size() * static_cast<size_t>(shape.kv_heads); ++b) {  // what another owner left
    const std::vector<uint16_t> old(static_cast<size_t>(shape.head_size), numerics::bf16_operand(-3.0f));
    for (int slot = 0; slot < 64; ++slot)
      set.kv_write(shape, pool_memory.data() + b * head, slot, old.data(), old.data());
  }

  ThreadPool pool(threads);
  std::vector<uint16_t> memory(static_cast<size_t>(threads * ops::kv_memory_of(shape)));
  std::unique_ptr<bool[]> bad(new bool[rows]());
  WrittenRows written;
  written.q.resize(rows * static_cast<size_t>(shape.heads * shape.head_padded));
  ops::QkvCall call;
  call.qkv = qkv.data();
  call.cosine = angles.data(), call.sine = angles.data() + rows * 4;
  call.positions = positions.data(), call.sequences = sequences.data(), call.views = views.data();
  call.q = written.q.data(), call.kv_memory = memory.data(), call.bad = bad.get();
  ops::split_qkv(pool, set, qkv_shape, shape, call, static_cast<int>(rows));
  written.blocks.assign(pool_memory.data(), pool_memory.data() + pool_memory.size());
  return written;
}

TEST(KvWrites, ManyRowsLieAsEachAlone) {
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported() || set->kv_write_rows == nullptr) continue;
    KernelSet each = *set;
    each.kv_write_rows = nullptr;
    for (const Numerics tree : {Numerics::kFma32, Numerics::kMma16}) {
      for (const int head_size : {8, 40, 64, 96, 256}) {
        kernels::AttentionShape shape;
        shape.numerics = tree;
        shape.heads = 6, shape.kv_heads = 3, shape.head_size = head_size;
        shape.head_padded = (head_size + 31) / 32 * 32;
        const WrittenRows want = write_rows(each, shape, 1, 0);
        const uint64_t before = set->calls->load();
        for (const int threads : {1, 2, 3}) EXPECT_EQ(write_rows(*set, shape, threads, 0), want) << head_size;
        EXPECT_GT(set->calls->load() - before, 3u * 191u) << "rows, and the writes of several at once";
        EXPECT_FALSE(write_rows(*set, shape, 1, 1) == want) << "the control: one position further is other bytes";
      }
    }
  }
}

}  // namespace
}  // namespace eadem
