// Which KV block holds the keys and values of which 64 tokens after which prefix. A block's key is its parent's name
// and its tokens, both compared in full: names are never used twice, so a chain of blocks stands for exactly one
// sequence of tokens, and no hash collision can bring wrong keys. A parent's name that is gone only makes its
// children unreachable.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "numerics/version.h"

namespace eadem::engine {

class PrefixCache {
 public:
  explicit PrefixCache(int blocks) : entries_(static_cast<size_t>(blocks)) {}

  // The block that holds tokens[0 .. 63] after the chain `parent` (0: the start of a sequence), or -1.
  int32_t find(uint64_t parent, const int32_t* tokens) const;
  // The name of a cached block; 0 where it is not cached.
  uint64_t name(int32_t block) const { return entries_[static_cast<size_t>(block)].name; }
  // `block` is not cached and no block is for this key. Returns its name.
  uint64_t insert(int32_t block, uint64_t parent, const int32_t* tokens);
  void erase(int32_t block);

 private:
  struct Entry {
    uint64_t name = 0, parent = 0, hash = 0;
    std::array<int32_t, numerics::kKvBlock> tokens{};
  };

  std::vector<Entry> entries_;  // by block
  std::unordered_multimap<uint64_t, int32_t> index_;
  uint64_t last_name_ = 0;
};

}  // namespace eadem::engine
