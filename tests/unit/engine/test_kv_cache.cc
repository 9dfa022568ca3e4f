// Blocks and their owners; the prefix cache's keys, its order of eviction, and zeroed memory for every new owner.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/kv_cache.h"
#include "support/plain_kernels.h"

namespace eadem::engine {
namespace {

using testing::plain_kernels;

kernels::AttentionShape shape() {
  kernels::AttentionShape s;
  s.heads = s.kv_heads = 1;
  s.head_size = 4;
  return s;
}

struct Fixture {
  explicit Fixture(int blocks, bool prefix = true)
      : cache(model::KvPool::create(plain_kernels(), shape(), 1, blocks, nullptr).value(), prefix, &counters) {}
  Counters counters;
  KvCache cache;
};

Sequence sequence_of(std::vector<int32_t> tokens) {
  Sequence s;
  s.tokens = std::move(tokens);
  s.prompt = static_cast<int64_t>(s.tokens.size());
  s.limit = s.prompt + 10;
  s.next_logits = s.prompt - 1;
  return s;
}

std::vector<int32_t> ramp(int n, int from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// As if a step had computed every row.
void compute(KvCache& cache, Sequence& s) {
  ASSERT_TRUE(cache.reserve(s.table, static_cast<int64_t>(s.tokens.size())));
  s.computed = static_cast<int64_t>(s.tokens.size());
  cache.register_blocks(s);
}

TEST(KvCache, ReservesWholeBlocksOrNothing) {
  Fixture f(3);
  std::vector<int32_t> table;
  EXPECT_TRUE(f.cache.reserve(table, 1));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_TRUE(f.cache.reserve(table, 64));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_FALSE(f.cache.reserve(table, 64 * 3 + 1));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(f.cache.free_blocks(), 2);
  EXPECT_TRUE(f.cache.reserve(table, 64 * 3));
  EXPECT_EQ(f.cache.free_blocks(), 0);
}

TEST(KvCache, SharesFullBlocksOfEqualPrefixes) {
  Fixture f(8);
  Sequence a = sequence_of(ramp(200));
  compute(f.cache, a);
  EXPECT_EQ(a.registered, 3);

  Sequence b = sequence_of(ramp(200));
  b.tokens[150] = 7;  // differs in the third block
  f.cache.take_cached(b);
  EXPECT_EQ(b.computed, 128);
  EXPECT_EQ(b.table, std::vector<int32_t>(a.table.begin(), a.table.begin() + 2));

  // The last token is always computed, so that its logits exist.
  Sequence c = sequence_of(ramp(192));
  f.cache.take_cached(c);
  EXPECT_EQ(c.computed, 128);
  Sequence d = sequence_of(ramp(193));
  f.cache.take_cached(d);
  EXPECT_EQ(d.computed, 192);

  // The same 64 tokens after another prefix are another block.
  Sequence e = sequence_of(ramp(100, 64));
  f.cache.take_cached(e);
  EXPECT_EQ(e.computed, 0);

  // Rows whose logits are wanted are not skipped.
  Sequence g = sequence_of(ramp(200));
  g.next_logits = 70;
  f.cache.take_cached(g);
  EXPECT_EQ(g.computed, 64);
}

TEST(KvCache, OffMeansOff) {
  Fixture f(8, false);
  Sequence a = sequence_of(ramp(200));
  compute(f.cache, a);
  Sequence b = sequence_of(ramp(200));
  f.cache.take_cached(b);
  EXPECT_EQ(b.computed, 0);
}

TEST(KvCache, KeepsWhatIsFreeAndEvictsTheLongestUnusedFromTheEnd) {
  Fixture f(5);
  Sequence a = sequence_of(ramp(193));  // three full blocks and one more
  compute(f.cache, a);
  f.cache.release(a);
  EXPECT_EQ(f.cache.free_blocks(), 5);
  EXPECT_EQ(f.counters.prefix_evictions, 0u);

  // Two blocks without cached contents go first, then a's last.
  std::vector<int32_t> other;
  ASSERT_TRUE(f.cache.reserve(other, 64 * 3));
  EXPECT_EQ(f.counters.prefix_evictions, 1u);
  Sequence b = sequence_of(ramp(193));
  f.cache.take_cached(b);
  EXPECT_EQ(b.computed, 128);
  EXPECT_EQ(f.cache.free_blocks(), 0);
}

TEST(KvCache, ANewOwnerFindsZeros) {
  Fixture f(1);
  std::vector<int32_t> table;
  ASSERT_TRUE(f.cache.reserve(table, 64));
  const uint16_t ones[4] = {1, 1, 1, 1};
  plain_kernels().kv_write(shape(), f.cache.pool().view(0, table.data()).block(0, 0), 9, ones, ones);
  EXPECT_NE(f.cache.pool().read(table.data(), 64), std::vector<uint16_t>(64 * 8));
  Sequence owner;
  owner.table = table;
  f.cache.release(owner);
  ASSERT_TRUE(f.cache.reserve(owner.table, 64));
  EXPECT_EQ(f.cache.pool().read(owner.table.data(), 64), std::vector<uint16_t>(64 * 8));
}

TEST(KvCache, SeesThatAnotherComputesTheSameBlock) {
  Fixture f(8);
  Sequence a = sequence_of(ramp(200)), b = sequence_of(ramp(200)), c = sequence_of(ramp(200, 1));
  EXPECT_TRUE(f.cache.computes_next_block(a, b));
  EXPECT_FALSE(f.cache.computes_next_block(a, c));
  a.cancelled = true;
  EXPECT_FALSE(f.cache.computes_next_block(a, b));
  a.cancelled = false;
  compute(f.cache, a);
  f.cache.take_cached(b);
  EXPECT_FALSE(f.cache.computes_next_block(a, b));  // nothing is left to share
}

TEST(PrefixCache, NamesAreNeverUsedTwice) {
  PrefixCache cache(2);
  const std::vector<int32_t> tokens = ramp(64), other = ramp(64, 1);
  const uint64_t first = cache.insert(0, 0, tokens.data());
  const uint64_t child = cache.insert(1, first, other.data());
  EXPECT_EQ(cache.find(0, tokens.data()), 0);
  EXPECT_EQ(cache.find(first, other.data()), 1);
  EXPECT_EQ(cache.find(child, other.data()), -1);
  cache.erase(0);
  EXPECT_EQ(cache.find(0, tokens.data()), -1);
  const uint64_t again = cache.insert(0, 0, other.data());
  EXPECT_NE(again, first);
  EXPECT_EQ(cache.find(again, other.data()), -1);  // the old parent's child is not the new one's
}

}  // namespace
}  // namespace eadem::engine
