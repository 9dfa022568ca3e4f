// Attention's weights with rows x heads of a group as lanes: 16 of them share every instruction, maxima and sums over
// keys need no exchange between lanes, and the lazy reference moves for 16 rows at once. Scores come, and weights go,
// with keys from line to line. For sets whose Vec has 16 lanes.
#pragma once

#include <algorithm>

#include "kernels/cpu/vec.h"
#include "numerics/attention.h"

namespace eadem::kernels::cpu {
namespace {

inline constexpr int kRowLanes = 16;
static_assert(Vec::kWidth == kRowLanes);

// 16 rows x heads in one split: which of its keys each sees, and their state.
struct LaneRows {
  IVec begin, end;          // keys [begin, end) of the split, 0 .. 1,024
  int first, last;          // [first, last): what any of them sees
  int all_first, all_last;  // [all_first, all_last): what all of them see
  Vec m, l[4];

  bool sees(int key) const { return first < key + numerics::kKvBlock && key < last; }
  bool all_see(int key) const { return all_first <= key && key + numerics::kKvBlock <= all_last; }
};

// Rows x heads [lane, lane + count) of a call, 1 <= count <= 16. Further lanes see what the last one sees.
EADEM_FN LaneRows start_lanes(const AttentionShape& shape, const AttentionRows& rows, int64_t split, int lane,
                              int count) {
  constexpr int64_t kKeys = numerics::kSplit;
  alignas(64) int32_t begin[kRowLanes], end[kRowLanes];
  for (int i = 0; i < kRowLanes; ++i) {
    const int64_t position = rows.positions[(lane + std::min(i, count - 1)) / shape.group()] - split * kKeys;
    const int64_t low = shape.window == 0 ? 0 : position - shape.window + 1;
    begin[i] = static_cast<int32_t>(std::clamp<int64_t>(low, 0, kKeys));
    end[i] = static_cast<int32_t>(std::clamp<int64_t>(position + 1, 0, kKeys));
  }
  LaneRows lanes;
  lanes.begin = IVec::load(begin), lanes.end = IVec::load(end);
  lanes.first = *std::min_element(begin, begin + kRowLanes), lanes.last = *std::max_element(end, end + kRowLanes);
  lanes.all_first = *std::max_element(begin, begin + kRowLanes);
  lanes.all_last = *std::min_element(end, end + kRowLanes);
  lanes.m = Vec(numerics::kMinusInfinity);
  for (Vec& l : lanes.l) l = Vec(0.0f);
  return lanes;
}

// Scores of keys that a lane does not see become -infinity. scores: [64 keys][16].
EADEM_FN void hide_keys(const LaneRows& lanes, int key, float* scores) {
  const __m512 hidden = _mm512_set1_ps(numerics::kMinusInfinity);
  for (int j = 0; j < numerics::kKvBlock; ++j) {
    const __m512i at = _mm512_set1_epi32(key + j);
    const __mmask16 begun = _mm512_cmple_epi32_mask(lanes.begin.v, at);
    const __mmask16 seen = _mm512_mask_cmplt_epi32_mask(begun, at, lanes.end.v);
    _mm512_mask_storeu_ps(scores + j * kRowLanes, static_cast<__mmask16>(~seen), hidden);
  }
}

// The largest scores of the lanes, once what they do not see is hidden.
EADEM_FN Vec largest_seen(const LaneRows& lanes, int key, float* scores) {
  if (!lanes.all_see(key)) hide_keys(lanes, key, scores);
  Vec top[4];
  for (int i = 0; i < 4; ++i) top[i] = Vec::load(scores + i * kRowLanes);
  for (int j = 4; j < numerics::kKvBlock; j += 4) {
    for (int i = 0; i < 4; ++i) top[i] = max(top[i], Vec::load(scores + (j + i) * kRowLanes));
  }
  return max(max(top[0], top[1]), max(top[2], top[3]));
}

// What a block does to the lanes before its keys are weighed.
struct LaneStep {
  Vec minus_mc;      // -(reference * c)
  Vec factor;        // of l and O
  Mask rescale;      // lanes whose O is to be multiplied
  uint16_t bad = 0;  // lanes whose reference passed its limit
};

// numerics::next_reference and rescale_factor. A lane that sees no key of the block has a largest score of -infinity
// and stays as it is.
EADEM_FN LaneStep move_references(Vec largest, float c, Vec& m) {
  const Vec minus_infinity(numerics::kMinusInfinity), cs(c);
  const Mask none = eq(m, minus_infinity);
  const Mask moves = either(none, lt(Vec(numerics::kLazy), mul(sub(largest, m), cs)));
  const Vec next = select(moves, largest, m);
  LaneStep step;
  step.factor = Vec(1.0f);
  step.rescale = {static_cast<__mmask16>(_mm512_cmp_ps_mask(m.v, next.v, _CMP_NEQ_OQ) & ~none.v)};
  if (any(moves)) {
    const Vec a = select(none, Vec(0.0f), numerics::exp2_full(mul(sub(m, next), cs)));
    step.factor = select(eq(m, next), Vec(1.0f), a);
  }
  step.minus_mc = float_of(bit_xor(bits_of(mul(next, cs)), IVec(static_cast<int32_t>(0x80000000u))));
  const __mmask16 sees = _mm512_cmp_ps_mask(largest.v, minus_infinity.v, _CMP_NEQ_OQ);
  step.bad = static_cast<uint16_t>(lt(Vec(numerics::kScoreLimit), abs(step.minus_mc)).v & sees);
  m = next;
  return step;
}

// Reports rows whose reference passed its limit. first: the lanes' first row x head of the call, of `count`.
EADEM_FN void flag_rows(const LaneStep& step, int group, int first, int count, bool* bad) {
  for (int i = 0; step.bad != 0 && i < count; ++i) {
    if (step.bad >> i & 1) bad[(first + i) / group] = true;
  }
}

// numerics::key_weight; +0 too where the key is hidden, or the lane saw no key yet (t is NaN then).
EADEM_LANE Vec lane_weight(Vec s, Vec c, Vec minus_mc) {
  const Vec t = fma(s, c, minus_mc);
  const __mmask16 near = _mm512_cmp_ps_mask(t.v, _mm512_set1_ps(numerics::kFarKey), _CMP_GE_OQ);
  return Vec(_mm512_maskz_mov_ps(near, numerics::exp2p(t).v));
}

// Two weights of each lane as one word of operands: `low` in the lower half. A weight is 0 or in 2^-50 .. 2^9 (rows
// that were flagged aside), so that rounding to nearest even is all that bf16_operand does.
EADEM_LANE IVec operand_words(Vec low, Vec high) {
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
  // Written out, since the AMX set is compiled without AVX512_BF16; whoever has AMX has it (amx_supported asks).
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i apart;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(apart) : "v"(high.v), "v"(low.v));
  return IVec(_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), apart));
#else
  const auto rounded = [](Vec x) {
    return add(add(bits_of(x), IVec(0x7fff)), bit_and(shift_right_logical<16>(bits_of(x)), IVec(1)));
  };
  return bit_or(shift_right_logical<16>(rounded(low)), bit_and(rounded(high), IVec(static_cast<int32_t>(0xffff0000u))));
#endif
}

// Weighs a block's 64 keys for 16 lanes: put(pair, low, high) takes the weights of keys 2 pair and 2 pair + 1, and l
// goes on (numerics::add_weights: the trees over key pairs run over the lines here). beside(j) is called before each
// eight keys, with j from 0 to 7, and with 8 at the end: a place for work of other units of the machine.
template <class Put, class Beside>
EADEM_INLINE void weigh_lanes(const float* scores, float c, const LaneStep& step, Vec* l, const Put& put,
                              const Beside& beside) {
  const Vec cs(c);
  Vec quarter[4], half[4], sum[4];  // of u[0 .. 1], u[0 .. 3], u[0 .. 7], in turn
  for (int part = 0; part < 2; ++part) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      beside(part * 4 + j);
      const float* line = scores + (part * 4 + j) * 8 * kRowLanes;
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const Vec low = lane_weight(Vec::load(line + 2 * r * kRowLanes), cs, step.minus_mc);
        const Vec high = lane_weight(Vec::load(line + (2 * r + 1) * kRowLanes), cs, step.minus_mc);
        put((part * 4 + j) * 4 + r, low, high);
        const Vec u = add(low, high);
        if (j % 2 == 0) quarter[r] = u;
        if (j == 1) half[r] = add(quarter[r], u);
        if (j == 3) half[r] = add(half[r], add(quarter[r], u));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sum[r] = part == 0 ? half[r] : add(sum[r], half[r]);
  }
  beside(8);
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) l[r] = fma(l[r], step.factor, sum[r]);
}

// O of 16 lanes, [elements][16], by numerics::rescale_output.
EADEM_FN void rescale_lanes(const LaneStep& step, int elements, float* o) {
  const Vec floor(numerics::kCarryFloor), zero(0.0f);
  for (int d = 0; d < elements; ++d) {
    const Vec old = Vec::load(o + d * kRowLanes), scaled = mul(old, step.factor);
    select(step.rescale, select(lt(abs(scaled), floor), zero, scaled), old).store(o + d * kRowLanes);
  }
}

// to[j][i] = from[i][j] for 16 x 16 words; strides in words. Lines of `from` beyond `lines`, and of `to`, are not
// touched: `to` has 16 of them unless to_lines says fewer.
EADEM_FN void transpose_words(const void* from, int64_t stride, int lines, void* to, int64_t to_stride, int to_lines) {
  const auto* in = static_cast<const uint32_t*>(from);
  auto* out = static_cast<uint32_t*>(to);
  __m512 a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = i < lines ? _mm512_loadu_ps(in + i * stride) : _mm512_setzero_ps();
  for (int i = 0; i < 16; i += 4) {
    const __m512 low01 = _mm512_unpacklo_ps(a[i], a[i + 1]), high01 = _mm512_unpackhi_ps(a[i], a[i + 1]);
    const __m512 low23 = _mm512_unpacklo_ps(a[i + 2], a[i + 3]), high23 = _mm512_unpackhi_ps(a[i + 2], a[i + 3]);
    b[i] = _mm512_shuffle_ps(low01, low23, 0x44), b[i + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
    b[i + 2] = _mm512_shuffle_ps(high01, high23, 0x44), b[i + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
  }
  // b[4 g + e] holds, in its quarter q, column 4 q + e of lines 4 g .. 4 g + 3.
  for (int e = 0; e < 4; ++e) {
    const __m512 low = _mm512_shuffle_f32x4(b[e], b[4 + e], 0x88), low_odd = _mm512_shuffle_f32x4(b[e], b[4 + e], 0xdd);
    const __m512 high = _mm512_shuffle_f32x4(b[8 + e], b[12 + e], 0x88);
    const __m512 high_odd = _mm512_shuffle_f32x4(b[8 + e], b[12 + e], 0xdd);
    a[e] = _mm512_shuffle_f32x4(low, high, 0x88), a[8 + e] = _mm512_shuffle_f32x4(low, high, 0xdd);
    a[4 + e] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
    a[12 + e] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
  }
  for (int j = 0; j < to_lines; ++j) _mm512_storeu_ps(out + j * to_stride, a[j]);
}

// A split's result for `count` lanes, of which the first is row x head `first` of the call. o: [elements][16].
EADEM_FN void finish_lanes(const LaneRows& lanes, const float* o, int head_padded, int first, int count,
                           const SplitResult& result) {
  alignas(64) float m[kRowLanes], l[kRowLanes];
  lanes.m.store(m);
  add(add(lanes.l[0], lanes.l[1]), add(lanes.l[2], lanes.l[3])).store(l);
  std::copy_n(m, count, result.m + first);
  std::copy_n(l, count, result.l + first);
  float* const to = result.o + static_cast<int64_t>(first) * head_padded;
  for (int d = 0; d < head_padded; d += kRowLanes) {
    transpose_words(o + d * kRowLanes, kRowLanes, kRowLanes, to + d, head_padded, count);
  }
}

}  // namespace
}  // namespace eadem::kernels::cpu
