#include "engine/kv_cache.h"

#include <algorithm>

#include "core/check.h"

namespace eadem::engine {
namespace {

constexpr int64_t kBlock = numerics::kKvBlock;

// Leading blocks that hold no row whose logits are wanted.
int64_t cacheable_blocks(const Sequence& sequence) { return sequence.next_logits / kBlock; }

}  // namespace

KvCache::KvCache(model::KvPool pool, bool prefix_cache, Counters* counters)
    : pool_(std::move(pool)),
      enabled_(prefix_cache),
      prefixes_(pool_.blocks()),
      counters_(counters),
      holders_(static_cast<size_t>(pool_.blocks())),
      next_(static_cast<size_t>(pool_.blocks()) + 1),
      previous_(static_cast<size_t>(pool_.blocks()) + 1) {
  const int32_t ring = pool_.blocks();
  next_[ring] = previous_[ring] = ring;
  for (int32_t block = 0; block < ring; ++block) link(block, previous_[ring]);
}

void KvCache::link(int32_t block, int32_t after) {
  previous_[block] = after;
  next_[block] = next_[after];
  previous_[next_[block]] = block;
  next_[after] = block;
  ++free_;
}

void KvCache::unlink(int32_t block) {
  next_[previous_[block]] = next_[block];
  previous_[next_[block]] = previous_[block];
  --free_;
}

int32_t KvCache::allocate() {
  const int32_t block = next_[blocks()];
  EADEM_CHECK(block != blocks() && holders_[block] == 0);
  unlink(block);
  if (prefixes_.name(block) != 0) {
    prefixes_.erase(block);
    --evictable_;
    ++counters_->prefix_evictions;
  }
  pool_.clear(block);
  holders_[block] = 1;
  return block;
}

void KvCache::hold(int32_t block) {
  if (holders_[block]++ > 0) return;
  unlink(block);
  --evictable_;  // nothing else can be found
}

void KvCache::drop(int32_t block) {
  EADEM_CHECK(holders_[block] > 0);
  if (--holders_[block] > 0) return;
  const int32_t ring = blocks();
  const bool known = prefixes_.name(block) != 0;
  if (known) ++evictable_;
  link(block, known ? previous_[ring] : ring);
}

bool KvCache::reserve(std::vector<int32_t>& table, int64_t positions) {
  const int64_t wanted = (positions + kBlock - 1) / kBlock - static_cast<int64_t>(table.size());
  if (wanted > free_) return false;
  for (int64_t i = 0; i < wanted; ++i) table.push_back(allocate());
  return true;
}

void KvCache::release(Sequence& sequence) {
  for (auto block = sequence.table.rbegin(); block != sequence.table.rend(); ++block) drop(*block);
  sequence.table.clear();
  sequence.computed = sequence.registered = 0;
  sequence.chain = 0;
}

void KvCache::take_cached(Sequence& sequence) {
  EADEM_CHECK(sequence.table.empty());
  while (enabled_ && sequence.registered < cacheable_blocks(sequence)) {
    const int32_t block = prefixes_.find(sequence.chain, &sequence.tokens[sequence.registered * kBlock]);
    if (block < 0) break;
    hold(block);
    sequence.table.push_back(block);
    sequence.chain = prefixes_.name(block);
    ++sequence.registered;
  }
  sequence.computed = sequence.registered * kBlock;
}

void KvCache::register_blocks(Sequence& sequence) {
  while (enabled_ && (sequence.registered + 1) * kBlock <= sequence.computed) {
    const int32_t* tokens = &sequence.tokens[sequence.registered * kBlock];
    // A second copy of a block that is known already stays its sequence's own.
    const int32_t known = prefixes_.find(sequence.chain, tokens);
    const int32_t own = sequence.table[sequence.registered];
    sequence.chain = known >= 0 ? prefixes_.name(known) : prefixes_.insert(own, sequence.chain, tokens);
    ++sequence.registered;
  }
}

bool KvCache::computes_next_block(const Sequence& other, const Sequence& sequence) const {
  const int64_t begin = sequence.registered * kBlock, end = begin + kBlock;
  if (!enabled_ || sequence.registered >= cacheable_blocks(sequence)) return false;
  if (other.chain != sequence.chain || other.registered != sequence.registered) return false;
  return static_cast<int64_t>(other.tokens.size()) >= end && other.reached() + other.rows_wanted() >= end &&
         std::equal(other.tokens.begin() + begin, other.tokens.begin() + end, sequence.tokens.begin() + begin);
}

}  // namespace eadem::engine
