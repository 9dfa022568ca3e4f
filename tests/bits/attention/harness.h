// Runs attention as the engine does (paged cache, splits, merges, finish) on any kernel set, and keeps every bit a row
// produced.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "kernels/kernel_set.h"
#include "numerics/attention.h"
#include "numerics/operand.h"

namespace eadem::test {

using kernels::AttentionShape;
using kernels::KernelSet;
using numerics::Numerics;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24f; }
  float
  normal() {  // roughly, with variance 1; each draw a statement, for their order must be the same under every compiler
    float sum = uniform(-1, 1);
    sum += uniform(-1, 1);
    sum += uniform(-1, 1);
    return sum;
  }
  float power_of_two(int low, int high) {
    return numerics::float_of(static_cast<uint32_t>(127 + low + below(high - low + 1)) << 23);
  }

 private:
  uint64_t state_;
};

// What the elements look like. Ordinary: scores of a few units. Peaked: the reference moves often and far keys fall
// below -50. Wide: q and k cancel each other's magnitudes, v spans the whole operand range, with zeros.
enum class Data { kOrdinary, kPeaked, kWide };

// The float32 log2(e) / sqrt(head size).
inline float default_c(int head_size) {
  return static_cast<float>(1.4426950408889634 / __builtin_sqrt(static_cast<double>(head_size)));
}

inline AttentionShape make_shape(Numerics tree, int kv_heads, int group, int head_size, int64_t window) {
  AttentionShape shape;
  shape.numerics = tree;
  shape.heads = kv_heads * group;
  shape.kv_heads = kv_heads;
  shape.head_size = head_size;
  shape.head_padded = numerics::padded_to_leaf(head_size);
  shape.c = default_c(head_size);
  shape.window = window;
  return shape;
}

// The logical operands of one sequence: what the numbers are, wherever a set stores them.
struct Sequence {
  AttentionShape shape;
  int64_t length = 0;
  std::vector<uint16_t> k, v;  // [kv_heads][length][head_size]
  std::vector<uint16_t> q;     // [length][heads][head_padded], zeros past head_size

  const uint16_t* key(int head, int64_t position) const {
    return k.data() + (head * length + position) * shape.head_size;
  }
  const uint16_t* value(int head, int64_t position) const {
    return v.data() + (head * length + position) * shape.head_size;
  }
  const uint16_t* query(int64_t position) const { return q.data() + position * shape.heads * shape.head_padded; }
  uint16_t* key(int head, int64_t position) { return k.data() + (head * length + position) * shape.head_size; }
  uint16_t* value(int head, int64_t position) { return v.data() + (head * length + position) * shape.head_size; }
  uint16_t* query(int64_t position) { return q.data() + position * shape.heads * shape.head_padded; }
};

inline Sequence zero_sequence(const AttentionShape& shape, int64_t length) {
  Sequence s;
  s.shape = shape;
  s.length = length;
  s.k.resize(static_cast<size_t>(shape.kv_heads * length * shape.head_size));
  s.v.resize(s.k.size());
  s.q.resize(static_cast<size_t>(length * shape.heads * shape.head_padded));
  return s;
}

inline Sequence make_sequence(const AttentionShape& shape, int64_t length, Data data, uint64_t seed) {
  Sequence s = zero_sequence(shape, length);
  Random random(seed);
  std::vector<float> magnitude(static_cast<size_t>(shape.head_size), 1.0f);
  if (data == Data::kWide) {
    for (float& m : magnitude) m = random.power_of_two(-45, 45);
  }
  const float sharpness = data == Data::kPeaked ? 12.0f : 1.0f;
  for (size_t i = 0; i < s.k.size(); ++i) {
    const float m = magnitude[i % static_cast<size_t>(shape.head_size)];
    s.k[i] = numerics::bf16_operand(random.normal() * m);
    const float wide = random.below(8) == 0 ? 0.0f : random.power_of_two(-50, 49);
    s.v[i] = numerics::bf16_operand(random.normal() * (data == Data::kWide ? wide : 1.0f));
  }
  for (int64_t row = 0; row < length * shape.heads; ++row) {
    for (int d = 0; d < shape.head_size; ++d) {
      const float x = random.normal() * sharpness / magnitude[static_cast<size_t>(d)];
      s.q[static_cast<size_t>(row * shape.head_padded + d)] = numerics::bf16_operand(x);
    }
  }
  return s;
}

// A paged cache in a set's own layout, blocks in shuffled order.
class Cache {
 public:
  // Holds the sequence's first `written` positions; every other slot zeros, or (garbage) some last owner's operands.
  Cache(const KernelSet& set, const Sequence& s, int64_t written, bool garbage) : set_(set) {
    const int64_t blocks = s.length / numerics::kKvBlock + 1;
    const size_t head_bytes = set.kv_bytes(s.shape);
    const size_t block_bytes = head_bytes * static_cast<size_t>(s.shape.kv_heads);
    EXPECT_EQ(head_bytes % 64, 0u);
    memory_ = Buffer::allocate(block_bytes * static_cast<size_t>(blocks), "a test cache").value();
    for (int64_t b = 0; b < blocks; ++b) table_.push_back(static_cast<int32_t>(b));
    Random random(7);
    for (size_t i = table_.size(); i > 1; --i)
      std::swap(table_[i - 1], table_[static_cast<size_t>(random.below(static_cast<int>(i)))]);
    view_ = {memory_.data(), table_.data(), block_bytes, head_bytes};
    if (garbage) fill_with_garbage(s.shape, blocks);
    for (int head = 0; head < s.shape.kv_heads; ++head) {
      for (int64_t j = 0; j < written; ++j) {
        set.kv_write(s.shape, view_.block(j / numerics::kKvBlock, head), static_cast<int>(j % numerics::kKvBlock),
                     s.key(head, j), s.value(head, j));
      }
    }
  }
  const kernels::KvView& view() const { return view_; }

 private:
  void fill_with_garbage(const AttentionShape& shape, int64_t blocks) {
    Random random(99);
    std::vector<uint16_t> k(static_cast<size_t>(shape.head_size)), v(k.size());
    for (int head = 0; head < shape.kv_heads; ++head) {
      for (int64_t j = 0; j < blocks * numerics::kKvBlock; ++j) {
        for (auto& x : k) x = numerics::bf16_operand((random.below(2) ? 1.0f : -1.0f) * random.power_of_two(-50, 50));
        for (auto& x : v) x = numerics::bf16_operand((random.below(2) ? 1.0f : -1.0f) * random.power_of_two(-50, 50));
        set_.kv_write(shape, view_.block(j / numerics::kKvBlock, head), static_cast<int>(j % numerics::kKvBlock),
                      k.data(), v.data());
      }
    }
  }

  const KernelSet& set_;
  Buffer memory_;
  std::vector<int32_t> table_;
  kernels::KvView view_;
};

// All that one row produced: m, l, o of each split it sees or looks at, the merged state, the output operands. A
// flagged row keeps only its flag: its request fails.
using RowBits = std::vector<uint32_t>;

namespace detail {

inline void append(RowBits& bits, const float* x, int n) {
  for (int i = 0; i < n; ++i) bits.push_back(numerics::bits_of(x[i]));
}

struct State {
  std::vector<float> m, l, o;
  kernels::SplitResult view(bool* bad) { return {m.data(), l.data(), o.data(), bad}; }
};

// Poisoned, so that a kernel must write all of it.
inline State make_state(int count, int head_padded, float fill) {
  const size_t n = static_cast<size_t>(count);
  return {std::vector<float>(n, fill), std::vector<float>(n, fill),
          std::vector<float>(n * static_cast<size_t>(head_padded), fill)};
}

}  // namespace detail

// Attends the rows at `positions` in one call per (KV head, split).
inline std::vector<RowBits> attend(const KernelSet& set, const Sequence& s, const Cache& cache,
                                   const std::vector<int64_t>& positions) {
  const AttentionShape& shape = s.shape;
  const int rows = static_cast<int>(positions.size()), group = shape.group(), count = rows * group;
  std::vector<uint16_t> q;
  for (int64_t i : positions) q.insert(q.end(), s.query(i), s.query(i) + shape.heads * shape.head_padded);
  const int64_t last = *std::max_element(positions.begin(), positions.end()) / numerics::kSplit;
  const kernels::AttentionRows call{q.data(), positions.data(), rows, cache.view()};
  std::vector<RowBits> bits(positions.size());
  Buffer flags = Buffer::allocate(positions.size(), "flags").value();
  bool* bad = flags.as<bool>();
  const float nan = __builtin_nanf("");

  for (int head = 0; head < shape.kv_heads; ++head) {
    detail::State total = detail::make_state(count, shape.head_padded, 0.0f);
    std::fill(total.m.begin(), total.m.end(), numerics::kMinusInfinity);
    for (int64_t split = 0; split <= last; ++split) {
      detail::State part = detail::make_state(count, shape.head_padded, nan);
      set.attention_split(shape, call, head, split, part.view(bad));
      for (int i = 0; i < count; ++i) {
        RowBits& row = bits[static_cast<size_t>(i / group)];
        RowBits here;
        detail::append(here, &part.m[static_cast<size_t>(i)], 1);
        detail::append(here, &part.l[static_cast<size_t>(i)], 1);
        detail::append(here, &part.o[static_cast<size_t>(i * shape.head_padded)], shape.head_padded);
        const bool later = split > positions[static_cast<size_t>(i / group)] / numerics::kSplit;
        if (!later) row.insert(row.end(), here.begin(), here.end());
        EXPECT_TRUE(!later || part.m[static_cast<size_t>(i)] == numerics::kMinusInfinity);
      }
      set.attention_merge(shape, count, total.view(bad), part.view(bad));
    }
    std::vector<uint16_t> out(static_cast<size_t>(count * shape.head_size), 0xffff);
    std::vector<uint16_t*> outputs;
    for (int i = 0; i < count; ++i) outputs.push_back(out.data() + i * shape.head_size);
    set.attention_finish(shape, count, total.view(bad), outputs.data());
    for (int i = 0; i < count; ++i) {
      RowBits& row = bits[static_cast<size_t>(i / group)];
      detail::append(row, &total.m[static_cast<size_t>(i)], 1);
      detail::append(row, &total.l[static_cast<size_t>(i)], 1);
      detail::append(row, &total.o[static_cast<size_t>(i * shape.head_padded)], shape.head_padded);
      row.insert(row.end(), outputs[static_cast<size_t>(i)], outputs[static_cast<size_t>(i)] + shape.head_size);
    }
  }
  for (size_t r = 0; r < bits.size(); ++r) {
    if (bad[r])
      bits[r] = {1};
    else
      bits[r].push_back(0);
  }
  return bits;
}

inline std::vector<RowBits> attend(const KernelSet& set, const Sequence& s, const std::vector<int64_t>& positions) {
  return attend(set, s, Cache(set, s, s.length, false), positions);
}

// Empty where equal; else the first differing row and word.
inline std::string difference(const std::vector<RowBits>& a, const std::vector<RowBits>& b) {
  if (a.size() != b.size()) return "numbers of rows";
  for (size_t r = 0; r < a.size(); ++r) {
    if (a[r].size() != b[r].size()) return "row " + std::to_string(r) + ": flags";
    for (size_t i = 0; i < a[r].size(); ++i) {
      if (a[r][i] != b[r][i]) {
        char text[96];
        std::snprintf(text, sizeof text, "row %zu, word %zu of %zu: %08x and %08x", r, i, a[r].size(), a[r][i],
                      b[r][i]);
        return text;
      }
    }
  }
  return "";
}

inline const KernelSet& reference() { return *kernels::find_kernel_set("reference"); }

inline std::vector<const KernelSet*> sets() {
  std::vector<const KernelSet*> found;
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (set->supported()) found.push_back(set);
  }
  return found;
}

}  // namespace eadem::test
