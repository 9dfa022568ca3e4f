#include "engine/prefix_cache.h"

#include <algorithm>

#include "core/check.h"

namespace eadem::engine {
namespace {

uint64_t hash_of(uint64_t parent, const int32_t* tokens) {
  uint64_t h = parent * 0x9E3779B97F4A7C15u + 1;
  for (int i = 0; i < numerics::kKvBlock; ++i) {
    h = (h ^ static_cast<uint32_t>(tokens[i])) * 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

int32_t PrefixCache::find(uint64_t parent, const int32_t* tokens) const {
  const auto [begin, end] = index_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it) {
    const Entry& entry = entries_[static_cast<size_t>(it->second)];
    if (entry.parent == parent && std::equal(entry.tokens.begin(), entry.tokens.end(), tokens)) return it->second;
  }
  return -1;
}

uint64_t PrefixCache::insert(int32_t block, uint64_t parent, const int32_t* tokens) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  EADEM_CHECK(entry.name == 0);
  entry.name = ++last_name_;
  entry.parent = parent;
  entry.hash = hash_of(parent, tokens);
  std::copy_n(tokens, numerics::kKvBlock, entry.tokens.begin());
  index_.emplace(entry.hash, block);
  return entry.name;
}

void PrefixCache::erase(int32_t block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (entry.name == 0) return;
  const auto [begin, end] = index_.equal_range(entry.hash);
  const auto it = std::find_if(begin, end, [&](const auto& e) { return e.second == block; });
  EADEM_CHECK(it != end);
  index_.erase(it);
  entry.name = 0;
}

}  // namespace eadem::engine
