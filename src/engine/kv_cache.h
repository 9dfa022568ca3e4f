// Who owns which block of the KV pool. A block is held by the sequences whose tables name it; one that nobody holds
// is free, and what the prefix cache knows of it stays findable until it is given to someone else, the longest unused
// first.
#pragma once

#include <cstdint>
#include <vector>

#include "eadem/engine.h"
#include "engine/prefix_cache.h"
#include "engine/sequence.h"
#include "model/kv_pool.h"

namespace eadem::engine {

class KvCache {
 public:
  KvCache(model::KvPool pool, bool prefix_cache, Counters* counters);

  model::KvPool& pool() { return pool_; }
  const model::KvPool& pool() const { return pool_; }
  int blocks() const { return pool_.blocks(); }
  int free_blocks() const { return free_; }
  // Those of the free blocks that the prefix cache knows.
  int evictable_blocks() const { return evictable_; }

  // Grows a table to hold `positions` positions, by zeroed blocks. False, and nothing changed, where too few are free.
  bool reserve(std::vector<int32_t>& table, int64_t positions);
  // Gives up all blocks of a sequence. The last goes first, so that prefixes outlive what follows them.
  void release(Sequence& sequence);

  // Takes the leading blocks of a sequence that holds none from the prefix cache, none of the rows whose logits it
  // wants among them.
  void take_cached(Sequence& sequence);
  // Tells the prefix cache of the full blocks that were computed since the last call.
  void register_blocks(Sequence& sequence);
  // Whether `other` is computing the very block that `sequence` needs next, so that waiting for it saves the work.
  bool computes_next_block(const Sequence& other, const Sequence& sequence) const;

 private:
  int32_t allocate();
  void hold(int32_t block);
  void drop(int32_t block);
  void link(int32_t block, int32_t after);
  void unlink(int32_t block);

  model::KvPool pool_;
  bool enabled_;
  PrefixCache prefixes_;
  Counters* counters_;
  std::vector<int32_t> holders_;  // by block
  // The free blocks as a ring through the element blocks(): its next is used first, its previous last.
  std::vector<int32_t> next_, previous_;
  int free_ = 0, evictable_ = 0;
};

}  // namespace eadem::engine
