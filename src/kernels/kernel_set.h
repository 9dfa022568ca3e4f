// The kernel table: every op that a backend evaluates. One KernelSet per instruction set (reference, avx2, avx512, amx,
// neon and so on), each with the same bits: the trees are numerics/'s. A set also owns its packed layouts (weights,
// KV blocks), which only its own functions read. Kernels never decline: what a caller may pass is written here, and
// ops/ checks it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "numerics/version.h"

namespace eadem::kernels {

using numerics::Numerics;

inline constexpr int kPanel = 16;  // outputs of a weight panel, the unit in which linear layers are cut

// ---- Linear layers: y[row][n] = tree over k of x[row][k] * w[n][k] --------------------------------------------------

// What is known of int8 weights beforehand, so that a set may store them in fewer bytes. Each includes the one before.
enum class Int8Weights : uint8_t {
  kAny,      // q in [-128, 127], float32 scales
  kHalves,   // scales and minima are float16 values (GGUF's Q8_0)
  kNibbles,  // q in [0, 15] with a minimum (Q4_1), in [-8, 7] without (Q4_0)
};

struct LinearShape {
  Numerics numerics = Numerics::kFma32;
  int n = 0;         // outputs
  int k = 0;         // inputs
  int k_padded = 0;  // k, padded with zeros to a multiple of 32 (int8: of the scale group)
  int shards = 1;    // 1: one chain (column-parallel); 2, 4, 8: row-parallel, joined by shard_tree; divides k_padded
  int group = 32;    // int8: elements of a scale group, 32 or 128; divides k_padded / shards
  bool minimum = false;  // int8: weights carry a minimum (Q4_1)
  Int8Weights stored = Int8Weights::kAny;

  int panels() const { return (n + kPanel - 1) / kPanel; }
  int groups() const { return k_padded / group; }
};

// The rows that a linear layer reads.
struct LinearInput {
  const uint16_t* operands = nullptr;  // [rows][k_padded] bf16 operands; mma16 and fma32 read these
  const int8_t* q = nullptr;           // [rows][k_padded]; int8 reads these three
  const float* scale = nullptr;        // [rows][groups]
  const int32_t* sum = nullptr;        // [rows][groups] sum of q in the group
};

struct LinearCall {
  const LinearShape* shape = nullptr;
  const std::byte* weights = nullptr;  // packed by this set's pack functions
  LinearInput x;
  const float* bias = nullptr;  // [n] float32, added once after the shard tree; may be null
  float* y = nullptr;           // [rows][y_stride] float32
  int64_t y_stride = 0;
  bool add_to_y = false;  // the residual: y = y + (tree + bias)
};

// Where a layer that stacks gates and ups leaves the operands of SwiGLU instead of its outputs.
struct SwigluCall {
  uint16_t* y = nullptr;  // operands [rows][y_stride], of which the first n / 2 of a row are written
  int64_t y_stride = 0;
  bool* bad = nullptr;  // [rows]: set, never cleared, where an element is NaN
};

// A rectangle of outputs: whole panels, any rows.
struct LinearTile {
  int panel_begin = 0, panel_end = 0;
  int row_begin = 0, row_end = 0;
};

// ---- Attention ------------------------------------------------------------------------------------------------------

struct AttentionShape {
  Numerics numerics = Numerics::kFma32;  // the tree: kMma16 or kFma32
  int heads = 0, kv_heads = 0;
  int head_size = 0;    // <= 256
  int head_padded = 0;  // head_size padded to a multiple of 32
  float c = 0.0f;       // float32(log2(e) * scale)
  int64_t window = 0;   // sliding window; 0: none

  int group() const { return heads / kv_heads; }
};

// Where a sequence's keys and values are, for one layer. Block b of the sequence (positions 64 b ... 64 b + 63), KV
// head h: base + table[b] * block_stride + h * head_stride. Unwritten positions hold zeros or old operands: never NaN.
struct KvView {
  std::byte* base = nullptr;
  const int32_t* table = nullptr;
  size_t block_stride = 0, head_stride = 0;

  std::byte* block(int64_t b, int head) const {
    return base + static_cast<size_t>(table[b]) * block_stride + static_cast<size_t>(head) * head_stride;
  }
};

// Rows of one sequence, each at its own absolute position. Row r, query head h lies at q + (r * heads + h) *
// head_padded.
struct AttentionRows {
  const uint16_t* q = nullptr;         // operands, padded with zeros
  const int64_t* positions = nullptr;  // [rows]
  int rows = 0;
  KvView kv;
};

// Results of one split for (row, head of the group), index i = row * group + head in group.
struct SplitResult {
  float* m = nullptr;   // [rows * group]; -inf where the split shows the row no key
  float* l = nullptr;   // [rows * group]
  float* o = nullptr;   // [rows * group][head_padded]
  bool* bad = nullptr;  // [rows]: set (never cleared) where |m * c| passed its limit
};

// ---- Rows -----------------------------------------------------------------------------------------------------------

struct QkvShape {
  int heads = 0, kv_heads = 0, head_size = 0, head_padded = 0;
  int rotary = 0;                 // leading elements of a head that are rotated: even, <= head_size
  const float* q_norm = nullptr;  // [head_size] or null (Qwen3's q/k norm)
  const float* k_norm = nullptr;
  float eps = 0.0f;
};

struct LogSum {
  float max;  // largest logit
  float sum;  // 256-lane sum of exp(logit - max)
};

struct Largest {
  float logit;    // +0 for either zero
  int32_t token;  // the first that has it
  bool nan;       // a NaN is among the logits: the rest means nothing
};

// A race by Gumbel noise (numerics/sampling.h) over a row of logits without a NaN.
struct RaceCall {
  const float* logits = nullptr;
  uint64_t seed = 0;
  uint32_t position = 0;
  float least = 0.0f;  // smaller logits do not take part
  float best = 0.0f;   // the score to reach
};

struct KernelSet {
  std::string_view name;
  bool (*supported)();           // whether this machine can run it
  std::atomic<uint64_t>* calls;  // kernels of this set that ran: the proof that a forced set is the one in use
  bool free_order = false;       // no set of the contract: sums as batch and threads suit it (free/free_sets.h)

  // Bytes of a packed weight matrix. Packing writes row `n` of it; rows may be packed from several threads at once.
  // Rows past n in the last panel stay zero (the buffer is zero-filled).
  size_t (*linear_bytes)(const LinearShape&);
  // operands: [k_padded], zeros past k. For mma16 and fma32.
  void (*pack_operands)(const LinearShape&, int n, const uint16_t* operands, std::byte* weights);
  // q: [k_padded]; scale, minimum: [groups] (minimum null unless shape.minimum). For int8.
  void (*pack_int8)(const LinearShape&, int n, const int8_t* q, const float* scale, const float* minimum,
                    std::byte* weights);
  // The operands [k_padded] of row `n` as it was packed: for mma16 and fma32 those themselves; for int8 bf16_operand of
  // scale * q, rounded, and of that + minimum, rounded again, which is what the file's row decodes to. For int8 kAny
  // never called: those weights are not the file's. A device's packing set has none.
  void (*unpack_row)(const LinearShape&, int n, const std::byte* weights, uint16_t* operands) = nullptr;
  // Evaluates a tile of the outputs. Any rows >= 1.
  void (*linear)(const LinearCall&, const LinearTile&);
  // Whether the set evaluates SwiGLU inside a layer of n / 2 gates and then n / 2 ups, for so many rows or more; null:
  // never. linear and swiglu give the same bits.
  bool (*fuses_swiglu)(const LinearShape&, int rows) = nullptr;
  // Such a layer, without bias: tile is of the gates' panels, and of rows for which it is fused. call.y is not used.
  void (*linear_swiglu)(const LinearCall& call, const SwigluCall& swiglu, const LinearTile& tile) = nullptr;

  // Bytes of one block of 64 positions of one KV head (keys and values); a multiple of 64.
  size_t (*kv_bytes)(const AttentionShape&);
  // Stores / loads the operands of one position (slot = position % 64); k, v: [head_size].
  void (*kv_write)(const AttentionShape&, std::byte* block, int slot, const uint16_t* k, const uint16_t* v);
  // Stores `count` positions from `position` on, all of one block, of all KV heads; k, v: [count][kv_heads][head_size].
  // Null: kv_write, one by one, which gives the same bytes.
  void (*kv_write_rows)(const AttentionShape&, const KvView&, int64_t position, int count, const uint16_t* k,
                        const uint16_t* v) = nullptr;
  void (*kv_read)(const AttentionShape&, const std::byte* block, int slot, uint16_t* k, uint16_t* v);
  // Rows x one KV head x one split of 1,024 keys; K and V are streamed once for the group's heads.
  void (*attention_split)(const AttentionShape&, const AttentionRows&, int kv_head, int64_t split, const SplitResult&);
  // (m, l, o) of rows x group <- merge with a later split's `part`. A target with m = -inf takes the part as it is; a
  // part with m = -inf changes nothing.
  void (*attention_merge)(const AttentionShape&, int count, const SplitResult& target, const SplitResult& part);
  // out[i][0 .. head_size) = operand(o * (1 / l)); out + i * out_stride. Returns through bad[row] a NaN. count = rows *
  // group.
  void (*attention_finish)(const AttentionShape&, int count, const SplitResult& state, uint16_t* const* out);

  // y = operand((x * r) * w) over n elements, zeros up to n_padded. False where an element is NaN.
  bool (*rms_norm)(const float* x, const float* weight, int n, int n_padded, float eps, uint16_t* y);
  // One row of q, k, v after their biases: q/k norm, rope, operands. qkv: [(heads + 2 kv_heads) * head_size]
  // (overwritten); cosine, sine: [rotary / 2]; q: [heads][head_padded]; k, v: [kv_heads][head_size]. False where an
  // element is NaN.
  bool (*split_qkv)(const QkvShape&, float* qkv, const float* cosine, const float* sine, uint16_t* q, uint16_t* k,
                    uint16_t* v);
  // gate_up: [2 n], gates first; y: operands [n_padded]. False where an element is NaN.
  bool (*swiglu)(const float* gate_up, int n, int n_padded, uint16_t* y);
  // One row of int8 activations: operands [k_padded] -> q [k_padded], scale and sum [k_padded / group].
  void (*quantise)(const uint16_t* operands, int k_padded, int group, int8_t* q, float* scale, int32_t* sum);
  // Over n logits. A NaN among them makes max NaN.
  LogSum (*log_sum)(const float* logits, int n);
  // Top-p's weights rint(e^(logit - max) * 2^31) (numerics/order.h) as float32, which holds them exactly, and their
  // exact sum. max: the largest logit, finite; no NaN.
  uint64_t (*top_p_weights)(const float* logits, int n, float max, float* weights);
  // The exact sum of those of n such weights that are at least `least`.
  uint64_t (*weight_above)(const float* weights, int n, float least);
  // The places in [begin, end) of weights in [low, high), ascending; returns how many. places: room for all.
  int (*weights_between)(const float* weights, int begin, int end, float low, float high, int32_t* places);
  Largest (*largest)(const float* logits, int n);
  // Tokens of [begin, end) that take part and whose noise may bring them to call.best, ids ascending, and their random
  // words; returns how many. None that can is left out; a few that cannot may be in. begin: a multiple of 4. tokens,
  // words: room for all.
  int (*contenders)(const RaceCall& call, int begin, int end, int32_t* tokens, uint32_t* words);
};

// Every set that this build has, best first; the reference last.
std::span<const KernelSet* const> all_kernel_sets();
// By name, or null.
const KernelSet* find_kernel_set(std::string_view name);
// The best set that this machine supports.
const KernelSet& best_kernel_set();

}  // namespace eadem::kernels
