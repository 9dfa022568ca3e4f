// Attention over Vec. Scores are chains with keys as lanes, outputs chains with the head's elements as lanes: both walk
// the panels of cpu/linear_chain.h. A KV block is K, 4 panels of 16 keys over the padded head, and then V, panels of 16
// elements over 64 keys.
//
// Rows of a call share the stream of blocks and nothing else. Where a block holds no visible key for a row that lies
// between rows that see some, its weights are all +0 and its factor 1, which leaves its state as it is, bit for bit.
#pragma once

#include <algorithm>

#include "kernels/calls.h"
#include "kernels/cpu/linear_chain.h"
#include "kernels/cpu/operand_writer.h"
#include "kernels/cpu/vec.h"
#include "kernels/cpu/vector_sum.h"
#include "numerics/attention.h"
#if defined(__AVX512BF16__)
#include "kernels/cpu/linear_pairs.h"
#endif

namespace eadem::kernels::cpu {
namespace {

using numerics::kKvBlock;
using numerics::kMaxHead;
using numerics::kSplit;

inline constexpr int kKeyPanels = kKvBlock / kPanel;
inline constexpr size_t kValuePanelBytes = operand_panel_bytes(kKvBlock);

EADEM_FN size_t key_panel_bytes(const AttentionShape& shape) { return operand_panel_bytes(shape.head_padded); }
EADEM_FN size_t value_offset(const AttentionShape& shape) { return kKeyPanels * key_panel_bytes(shape); }
EADEM_FN int value_panels(const AttentionShape& shape) { return (shape.head_size + kPanel - 1) / kPanel; }

EADEM_FN size_t kv_bytes(const AttentionShape& shape) {
  return value_offset(shape) + static_cast<size_t>(value_panels(shape)) * kValuePanelBytes;
}

// Where operand k of a panel's lane lies, as the chains of the tree want it.
EADEM_FN size_t index_in_panel([[maybe_unused]] const AttentionShape& shape, int lane, int k) {
#if defined(__AVX512BF16__)
  if (shape.numerics == Numerics::kFma32) return pair_index(lane, k);
#endif
  return operand_index(lane, k);
}

// Where element d of a slot's key and value lie, in operands from the block's start.
EADEM_FN size_t key_index(const AttentionShape& shape, int slot, int d) {
  return static_cast<size_t>(slot / kPanel) * key_panel_bytes(shape) / 2 + index_in_panel(shape, slot % kPanel, d);
}
EADEM_FN size_t value_index(const AttentionShape& shape, int slot, int d) {
  return value_offset(shape) / 2 + static_cast<size_t>(d / kPanel) * kValuePanelBytes / 2 +
         index_in_panel(shape, d % kPanel, slot);
}

EADEM_FN void kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k, const uint16_t* v) {
  auto* operands = reinterpret_cast<uint16_t*>(block);
  for (int d = 0; d < shape.head_size; ++d) operands[key_index(shape, slot, d)] = k[d];
  for (int d = 0; d < shape.head_size; ++d) operands[value_index(shape, slot, d)] = v[d];
}

EADEM_FN void kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
  const auto* operands = reinterpret_cast<const uint16_t*>(block);
  for (int d = 0; d < shape.head_size; ++d) k[d] = operands[key_index(shape, slot, d)];
  for (int d = 0; d < shape.head_size; ++d) v[d] = operands[value_index(shape, slot, d)];
}

// ---- One row and block --------------------------------------------------------------------------------------------

// The slots of a block that a row sees; first > last where it sees none.
struct Visible {
  int first, last;
  bool none() const { return first > last; }
  bool all() const { return first == 0 && last == kKvBlock - 1; }
};

// The largest of 64 scores.
EADEM_FN float largest_of(const Vec* s) {
  Vec top = s[0];
  for (int i = 1; i < kKvBlock / Vec::kWidth; ++i) top = max(top, s[i]);
  return largest_lane(top);
}

// numerics::add_weights for l in place, from p's 64 floats.
EADEM_FN void add_weights(const float* p, float a, float* l) {
  Float4 u[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) u[j] = pair_sums(p + 8 * j);
  const Float4 v = ((u[0] + u[1]) + (u[2] + u[3])) + ((u[4] + u[5]) + (u[6] + u[7]));
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) l[r] = numerics::fma_f32(l[r], a, v[r]);
}

EADEM_FN void rescale(float* o, int n, float a) {
  const Vec factor(a), floor(numerics::kCarryFloor), zero(0.0f);
  for (int d = 0; d < n; d += Vec::kWidth) {
    const Vec scaled = mul(Vec::load(o + d), factor);
    select(lt(abs(scaled), floor), zero, scaled).store(o + d);
  }
}

struct RowState {
  float m;
  float l[4];
};

// From a block's scores to the weights' operands, as floats (and their powers of two), with l, m and O brought up to
// date. Returns false where the reference passed its limit.
template <Numerics kTree>
EADEM_FN bool weigh(const AttentionShape& shape, Visible visible, const float* scores, RowState& state, float* o,
                    float* value, float* power) {
  constexpr int kCount = kKvBlock / Vec::kWidth;
  Vec s[kCount];
  for (int i = 0; i < kCount; ++i) s[i] = Vec::load(scores + i * Vec::kWidth);
  if (!visible.all()) {
    // A hidden key's score becomes -infinity: it is no maximum, and its weight is +0.
    alignas(64) float masked[kKvBlock];
    std::fill_n(masked, kKvBlock, numerics::kMinusInfinity);
    std::copy(scores + visible.first, scores + visible.last + 1, masked + visible.first);
    for (int i = 0; i < kCount; ++i) s[i] = Vec::load(masked + i * Vec::kWidth);
  }
  const float next = numerics::next_reference(state.m, largest_of(s), shape.c);
  const float a = numerics::rescale_factor(state.m, next, shape.c);
  const float minus_mc = -numerics::mul_f32(next, shape.c);
  if (a != 1.0f && state.m != numerics::kMinusInfinity) rescale(o, shape.head_padded, a);
  state.m = next;

  alignas(64) float weights[kKvBlock];
  for (int i = 0; i < kCount; ++i) {
    const Vec t = fma(s[i], Vec(shape.c), Vec(minus_mc));
    const Vec p = select(lt(t, Vec(numerics::kFarKey)), Vec(0.0f), numerics::exp2p(t));
    p.store(weights + i * Vec::kWidth);
    const Vec operand = float_of(shift_left<16>(operands_of(p)));
    operand.store(value + i * Vec::kWidth);
    if constexpr (kTree == Numerics::kMma16) power_of(operand).store(power + i * Vec::kWidth);
  }
  add_weights(weights, a, state.l);
  return __builtin_fabsf(minus_mc) <= numerics::kScoreLimit;
}

// ---- Rows of a call -----------------------------------------------------------------------------------------------

inline constexpr int kChunk = 24;  // rows x heads of a group that walk the blocks together

// What a chunk multiplies: q and a block's weights as the chains want them.
template <Numerics kTree>
struct ChunkOperands {
  static constexpr int kPowers = kTree == Numerics::kMma16 ? 1 : 0;  // mma16 reads the powers of two of x as well
  alignas(64) float q_value[kChunk * kMaxHead];
  alignas(64) float q_power[kPowers * kChunk * kMaxHead + Vec::kWidth];
  alignas(64) float p_value[kChunk * kKvBlock];
  alignas(64) float p_power[kPowers * kChunk * kKvBlock + Vec::kWidth];

  void set_query(int i, const uint16_t* q, int head) {
    expand_operands<kTree>(q, head, q_value + i * head, q_power + kPowers * i * head);
  }
  // The weights of row i, of those that see some of a block, are where weigh() left them.
  float* value(int i) { return p_value + i * kKvBlock; }
  float* power(int i) { return p_power + kPowers * i * kKvBlock; }
  void set_weights(int) {}

  // Continues the scores, [rows][64], of rows x heads from `first` on over panels of keys. next: bytes to the block to
  // ask for.
  void add_scores(const AttentionShape& shape, int first, int rows, const std::byte* keys, int panels, size_t next,
                  float* scores) const {
    const int head = shape.head_padded;
    chains<kTree>(scores, kKvBlock, {q_value + first * head, q_power + kPowers * first * head, head}, rows, keys,
                  key_panel_bytes(shape), panels, next, head);
  }
  // Continues outputs over keys [from, to), whole leaves.
  void add_outputs(const AttentionShape& shape, int rows, const std::byte* values, int from, int to, size_t next,
                   float* o) const {
    chains<kTree>(o, shape.head_padded, {p_value + from, p_power + kPowers * from, kKvBlock}, rows,
                  values + operand_panel_bytes(from), kValuePanelBytes, value_panels(shape), next, to - from);
  }
};

template <Numerics kTree, class Operands = ChunkOperands<kTree>>
struct AttentionChunk {
  Operands operands;
  alignas(64) float scores[kChunk * kKvBlock];
  RowState state[kChunk];
  int64_t begin[kChunk], end[kChunk];  // the keys of the split that each row sees
  int count;

  // Rows x heads [first, first + count) of the call.
  void start(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split, int first) {
    const int group = shape.group();
    for (int i = 0; i < count; ++i) {
      const int row = (first + i) / group, head = kv_head * group + (first + i) % group;
      operands.set_query(i, rows.q + (static_cast<int64_t>(row) * shape.heads + head) * shape.head_padded,
                         shape.head_padded);
      state[i] = {numerics::kMinusInfinity, {0.0f, 0.0f, 0.0f, 0.0f}};
      begin[i] = std::max(split * kSplit, numerics::first_visible(rows.positions[row], shape.window));
      end[i] = std::min((split + 1) * kSplit, rows.positions[row] + 1);
    }
  }

  Visible visible(int i, int64_t first_key) const {
    return {static_cast<int>(std::max<int64_t>(begin[i] - first_key, 0)),
            static_cast<int>(std::min<int64_t>(end[i] - first_key, kKvBlock)) - 1};
  }

  // What of a block matters: rows [low, high), keys [first, last] of which some row sees the ends.
  struct Extent {
    int low, high;
    int first = kKvBlock, last = -1;
  };

  Extent extent(int64_t first_key) const {
    Extent e{0, count};
    while (e.low < e.high && visible(e.low, first_key).none()) ++e.low;
    while (e.high > e.low && visible(e.high - 1, first_key).none()) --e.high;
    for (int i = e.low; i < e.high; ++i) {
      const Visible seen = visible(i, first_key);
      if (seen.none()) continue;
      e.first = std::min(e.first, seen.first);
      e.last = std::max(e.last, seen.last);
    }
    return e;
  }

  // Scores of the panels of keys that some row sees.
  void score(const AttentionShape& shape, const Extent& e, const std::byte* block, size_t next) {
    const int rows = e.high - e.low, panel = e.first / kPanel, panels = e.last / kPanel + 1 - panel;
    std::fill_n(scores, rows * kKvBlock, 0.0f);
    operands.add_scores(shape, e.low, rows, block + static_cast<size_t>(panel) * key_panel_bytes(shape), panels, next,
                        scores + panel * kPanel);
  }

  // Outputs go on over the leaves (mma16: groups) of keys that some row sees: with weights of +0 one would add nothing.
  void accumulate(const AttentionShape& shape, const Extent& e, const std::byte* block, size_t next, float* o) {
    constexpr int kUnit = kTree == Numerics::kMma16 ? numerics::kGroup : numerics::kLeaf;
    operands.add_outputs(shape, e.high - e.low, block + value_offset(shape), e.first / kUnit * kUnit,
                         (e.last / kUnit + 1) * kUnit, next, o + static_cast<int64_t>(e.low) * shape.head_padded);
  }

  // One block for the rows that see some of it. more: another one follows. bad: of the chunk's first row; phase: the
  // first row x head's place in its group.
  void add_block(const AttentionShape& shape, const KvView& kv, int kv_head, int64_t b, bool more, float* o, bool* bad,
                 int phase) {
    const int64_t first_key = b * kKvBlock;
    const Extent e = extent(first_key);
    if (e.low == e.high) return;
    const std::byte* block = kv.block(b, kv_head);
    // Asked for beside this one: the next block, and beside the last one what lies behind it, the next head's.
    const size_t next = more ? static_cast<size_t>(kv.block(b + 1, kv_head) - block) : kv_bytes(shape);
    score(shape, e, block, next);
    for (int i = e.low; i < e.high; ++i) {
      const int at = i - e.low;
      const Visible seen = visible(i, first_key);
      if (seen.none()) {
        std::fill_n(operands.value(at), kKvBlock, 0.0f);
        if (Operands::kPowers != 0) std::fill_n(operands.power(at), kKvBlock, 0.0f);
      } else if (!weigh<kTree>(shape, seen, scores + at * kKvBlock, state[i],
                               o + static_cast<int64_t>(i) * shape.head_padded, operands.value(at),
                               operands.power(at))) {
        bad[(phase + i) / shape.group()] = true;
      }
      operands.set_weights(at);
    }
    accumulate(shape, e, block, next, o);
  }

  void run(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split, int first,
           const SplitResult& result) {
    start(shape, rows, kv_head, split, first);
    float* o = result.o + static_cast<int64_t>(first) * shape.head_padded;
    bool* bad = result.bad + first / shape.group();
    std::fill_n(o, static_cast<int64_t>(count) * shape.head_padded, 0.0f);
    const int64_t low = *std::min_element(begin, begin + count), high = *std::max_element(end, end + count);
    // The first block is asked for at once, each other one while the block before it is worked on.
    const std::byte* const block = low < high ? rows.kv.block(low / kKvBlock, kv_head) : nullptr;
    for (size_t i = 0; block != nullptr && i < kv_bytes(shape); i += 64) prefetch_weights(block + i);
    for (int64_t b = low / kKvBlock; b * kKvBlock < high; ++b) {
      add_block(shape, rows.kv, kv_head, b, (b + 1) * kKvBlock < high, o, bad, first % shape.group());
    }
    for (int i = 0; i < count; ++i) {
      result.m[first + i] = state[i].m;
      const float* l = state[i].l;
      result.l[first + i] = numerics::add_f32(numerics::add_f32(l[0], l[1]), numerics::add_f32(l[2], l[3]));
    }
  }
};

template <class Chunk>
EADEM_FN void attention_split_by(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                                 const SplitResult& result) {
  Chunk chunk;
  const int total = rows.rows * shape.group();
  for (int first = 0; first < total; first += kChunk) {
    chunk.count = std::min(kChunk, total - first);
    chunk.run(shape, rows, kv_head, split, first, result);
  }
}

EADEM_FN void attention_split(const AttentionShape& shape, const AttentionRows& rows, int kv_head, int64_t split,
                              const SplitResult& result) {
  count_call();
  if (shape.numerics == Numerics::kMma16) {
    attention_split_by<AttentionChunk<Numerics::kMma16>>(shape, rows, kv_head, split, result);
  } else {
    attention_split_by<AttentionChunk<Numerics::kFma32>>(shape, rows, kv_head, split, result);
  }
}

// ---- Over splits --------------------------------------------------------------------------------------------------

EADEM_FN void attention_merge(const AttentionShape& shape, int count, const SplitResult& target,
                              const SplitResult& part) {
  count_call();
  for (int i = 0; i < count; ++i) {
    if (part.m[i] == numerics::kMinusInfinity) continue;
    float* sum = target.o + static_cast<int64_t>(i) * shape.head_padded;
    const float* o = part.o + static_cast<int64_t>(i) * shape.head_padded;
    if (target.m[i] == numerics::kMinusInfinity) {
      target.m[i] = part.m[i];
      target.l[i] = part.l[i];
      std::copy_n(o, shape.head_padded, sum);
      continue;
    }
    const numerics::MergeFactors factors = numerics::merge_factors(target.m[i], part.m[i], shape.c);
    target.m[i] = factors.m;
    target.l[i] = numerics::merge(target.l[i], factors.e1, part.l[i], factors.e2);
    const Vec e1(factors.e1), e2(factors.e2);
    for (int d = 0; d < shape.head_padded; d += Vec::kWidth) {
      fma(Vec::load(sum + d), e1, mul(Vec::load(o + d), e2)).store(sum + d);
    }
  }
}

EADEM_FN void attention_finish(const AttentionShape& shape, int count, const SplitResult& state, uint16_t* const* out) {
  count_call();
  for (int i = 0; i < count; ++i) {
    const float* sum = state.o + static_cast<int64_t>(i) * shape.head_padded;
    const float reciprocal = numerics::div_f32(1.0f, state.l[i]);
    OperandWriter writer;
    int d = 0;
    for (; d + Vec::kWidth <= shape.head_size; d += Vec::kWidth) {
      writer.put(out[i] + d, mul(Vec::load(sum + d), Vec(reciprocal)));
    }
    for (; d < shape.head_size; ++d) writer.put(out[i] + d, numerics::mul_f32(sum[d], reciprocal));
    if (!writer.good()) state.bad[i / shape.group()] = true;
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
