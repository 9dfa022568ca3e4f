// How often each token occurred: what penalties need. The border between prompt and output is the request's; a
// sequence that was preempted keeps its counts.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace eadem::sampler {

class TokenCounts {
 public:
  struct Entry {
    int32_t token = 0;
    int32_t outputs = 0;  // times it occurs in the output; 0 for a token of the prompt alone
  };

  void add_prompt(std::span<const int32_t> tokens) {
    for (int32_t token : tokens) entry(token);
  }
  void add_output(int32_t token) { ++entry(token).outputs; }
  // Each token once, in the order of first occurrence.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Entry& entry(int32_t token) {
    const auto [found, is_new] = index_.try_emplace(token, entries_.size());
    if (is_new) entries_.push_back({token, 0});
    return entries_[found->second];
  }

  std::vector<Entry> entries_;
  std::unordered_map<int32_t, size_t> index_;
};

}  // namespace eadem::sampler
