// A warpgroup of prefill attention: 64 rows through all blocks of keys that they see.
#pragma once

#include "kernels/cuda/attention/prefill_tile.cuh"
#include "kernels/cuda/operand.cuh"
#include "numerics/attention.h"

namespace eadem::kernels::cuda {

// Magnitude up to which a score neither moves the reference m nor is too far for a weight; on the safe side, so that
// rounding in the exact tests cannot matter.
EADEM_DEVICE float quiet_limit(float m, float c, float inverse_c) {
  const float mc = m * c, t = fminf(mc + 7.9375f, 49.0f - mc) * inverse_c;
  return t - fabsf(t) * 0x1p-16f;
}

// Of one of a thread's two rows.
struct PrefillRow {
  float m = numerics::kMinusInfinity, l = 0.0f;  // of the split; l: this lane's of the four sums
  float total_m = numerics::kMinusInfinity, total_l = 0.0f;
  float quiet = numerics::kMinusInfinity;
  float a = 1.0f;  // what the block does to O and l

  EADEM_DEVICE bool moved_by(float largest, float c) const { return numerics::next_reference(m, largest, c) != m; }
  EADEM_DEVICE bool move(float largest, float c, float inverse_c) {
    const float next = numerics::next_reference(m, largest, c);
    a = numerics::rescale_factor(m, next, c);
    if (next == m) return false;
    m = next;
    quiet = quiet_limit(m, c, inverse_c);
    return true;
  }
};

EADEM_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
EADEM_DEVICE float quad_sum(float x) {  // (l_0 + l_1) + (l_2 + l_3)
  x = numerics::add_f32(x, __shfl_xor_sync(~0u, x, 1));
  return numerics::add_f32(x, __shfl_xor_sync(~0u, x, 2));
}
EADEM_DEVICE float rescaled(float o, float a) {
  const float x = numerics::mul_f32(o, a);
  return a != 1.0f && fabsf(x) < numerics::kCarryFloor ? 0.0f : x;
}
EADEM_DEVICE uint32_t packed_operands(float low, float high) {  // of numbers that are 0 or inside an operand's range
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Free order's: the GPU's own, which no other machine has.
EADEM_DEVICE float approximate_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
struct PrefillConsumer {
  static constexpr int kRegisters = T::kRegisters;

  const PrefillArgs& a;
  int group, thread;
  uint32_t q_low, k_low, v_low;  // descriptors of Q and of the stages at hand
  int key_stage = 0, value_stage = 0;
  uint32_t parities = 0;  // of the stages of K (1), of V (2), and of Q (4)
  float o[kRegisters], s[32];
  uint32_t p[16];
  PrefillRow upper, lower;
  int work = 0;

  static constexpr uint32_t kKLow = T::kK >> 4 | 1u << 16;
  static constexpr uint32_t kVLow = T::kV >> 4 | static_cast<uint32_t>(kKvTileBytes >> 4) << 16;

  EADEM_DEVICE PrefillConsumer(const PrefillArgs& args, int warpgroup)
      : a(args), group(warpgroup), thread(threadIdx.x % 128) {
    q_low = __shfl_sync(~0u, (T::kQ + group * T::kImage) >> 4 | 1u << 16, 0);
    k_low = __shfl_sync(~0u, kKLow, 0);
    v_low = __shfl_sync(~0u, kVLow, 0);
  }

  EADEM_DEVICE void scores() {
    barrier_wait(T::kKFull + 8 * key_stage, parities & 1);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < T::kHead / 16; ++k) {
      const uint32_t step = k / 4 * (kKvTileBytes >> 4) + k % 4 * 2;
      Wgmma<64>::shared(s, matrix_descriptor(q_low + step), matrix_descriptor(k_low + step), k > 0);
    }
    wgmma_commit();
  }
  EADEM_DEVICE void add_values() {
    barrier_wait(T::kVFull + 8 * value_stage, parities >> 1 & 1);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      Wgmma<T::kHead>::registers_by_rows(o, p + 4 * k, matrix_descriptor(v_low + 128 * k));
    }
    wgmma_commit();
  }
  EADEM_DEVICE void skip_keys(int count) {
    key_stage += count;
    while (key_stage >= T::kKeys) key_stage -= T::kKeys, parities ^= 1;
    k_low = __shfl_sync(~0u, kKLow + key_stage * (T::kImage >> 4), 0);
  }
  EADEM_DEVICE void skip_values(int count) {
    value_stage += count;
    while (value_stage >= T::kValues) value_stage -= T::kValues, parities ^= 2;
    v_low = __shfl_sync(~0u, kVLow + value_stage * (T::kImage >> 4), 0);
  }
  EADEM_DEVICE void release_keys() {
    group_arrive(T::kKEmpty + 8 * key_stage, thread % 32 == 0);
    if (++key_stage == T::kKeys) key_stage = 0, parities ^= 1;
    k_low = __shfl_sync(~0u, kKLow + key_stage * (T::kImage >> 4), 0);
  }
  EADEM_DEVICE void release_values() {
    group_arrive(T::kVEmpty + 8 * value_stage, thread % 32 == 0);
    if (++value_stage == T::kValues) value_stage = 0, parities ^= 2;
    v_low = __shfl_sync(~0u, kVLow + value_stage * (T::kImage >> 4), 0);
  }

  // The lane's largest scores of both rows.
  EADEM_DEVICE float2 largest() const {
    float u = fmaxf(s[0], s[1]), l = fmaxf(s[2], s[3]), v = fmaxf(s[4], s[5]), w = fmaxf(s[6], s[7]);
#pragma unroll
    for (int i = 8; i < 32; i += 8) {
      u = fmaxf(u, fmaxf(s[i], s[i + 1])), l = fmaxf(l, fmaxf(s[i + 2], s[i + 3]));
      v = fmaxf(v, fmaxf(s[i + 4], s[i + 5])), w = fmaxf(w, fmaxf(s[i + 6], s[i + 7]));
    }
    return {fmaxf(u, v), fmaxf(l, w)};
  }
  // Whether every score of the warp is so small that no reference moves and no key is far.
  EADEM_DEVICE bool all_quiet() const {
    float u = fmaxf(fabsf(s[0]), fabsf(s[1])), l = fmaxf(fabsf(s[2]), fabsf(s[3]));
    float v = fmaxf(fabsf(s[4]), fabsf(s[5])), w = fmaxf(fabsf(s[6]), fabsf(s[7]));
#pragma unroll
    for (int i = 8; i < 32; i += 8) {
      u = fmaxf(fmaxf(u, fabsf(s[i])), fabsf(s[i + 1])), l = fmaxf(fmaxf(l, fabsf(s[i + 2])), fabsf(s[i + 3]));
      v = fmaxf(fmaxf(v, fabsf(s[i + 4])), fabsf(s[i + 5])), w = fmaxf(fmaxf(w, fabsf(s[i + 6])), fabsf(s[i + 7]));
    }
    const int loud = static_cast<int>(!(fmaxf(u, v) <= upper.quiet)) | static_cast<int>(!(fmaxf(l, w) <= lower.quiet));
    return !__any_sync(~0u, loud);
  }
  // A row whose reference passed its limit has no result.
  EADEM_DEVICE void flag_past_limit(float m, int below) const {
    if (fabsf(numerics::mul_f32(m, a.c)) <= numerics::kScoreLimit) return;
    const PrefillWork w = work_of(a, work, 64 * T::kGroups);
    const int row = w.row + 64 * group + upper_line() + below;
    if (row < w.run.rows) a.bad[w.run.row_begin + row] = true;
  }
  // Moves the references and rescales O (P V of the block before must be complete). Lanes exchange their maxima only
  // where some lane's passes its row's reference.
  struct Moved {
    bool upper, lower;
  };
  EADEM_DEVICE Moved move_references(float2 x) {
    upper.a = lower.a = 1.0f;
    if (!__any_sync(~0u, upper.moved_by(x.x, a.c) || lower.moved_by(x.y, a.c))) return {false, false};
    const bool up = upper.move(quad_max(x.x), a.c, a.inverse_c), low = lower.move(quad_max(x.y), a.c, a.inverse_c);
    if (up) flag_past_limit(upper.m, 0);
    if (low) flag_past_limit(lower.m, 8);
    return {static_cast<bool>(__any_sync(~0u, up)), static_cast<bool>(__any_sync(~0u, low))};
  }
  EADEM_DEVICE void rescale(Moved moved) {
    if (moved.upper) {
#pragma unroll
      for (int i = 0; i < kRegisters; i += 4) o[i] = rescaled(o[i], upper.a), o[i + 1] = rescaled(o[i + 1], upper.a);
    }
    if (moved.lower) {
#pragma unroll
      for (int i = 0; i < kRegisters; i += 4) {
        o[i + 2] = rescaled(o[i + 2], lower.a), o[i + 3] = rescaled(o[i + 3], lower.a);
      }
    }
  }
  // Scores to weights. kFar: a key may be too far to have one.
  template <bool kFar>
  EADEM_DEVICE void weigh() {
    const float u = -numerics::mul_f32(upper.m, a.c), l = -numerics::mul_f32(lower.m, a.c);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float shift = i & 2 ? l : u;
      if constexpr (!T::kSplits) {
        s[i] = approximate_exp2(numerics::fma_f32(s[i], a.c, shift));
      } else {
        s[i] = kFar ? numerics::key_weight(s[i], a.c, shift) : numerics::exp2p(numerics::fma_f32(s[i], a.c, shift));
      }
    }
  }
  // Scores or weights of the keys that a row does not see. upper_far: the upper row's distance to the block's first
  // key, less this lane's columns.
  EADEM_DEVICE void hide(int upper_far, float with) {
    const int reach = a.window == 0 ? 1 << 30 : a.window, lower_far = upper_far + 8;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int column = i / 4 * 8 + i % 2, far = i & 2 ? lower_far : upper_far;
      if (column > far || column <= far - reach) s[i] = with;
    }
  }
  EADEM_DEVICE void add_to_l() {
    float u[8], l[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      u[j] = numerics::add_f32(s[4 * j], s[4 * j + 1]), l[j] = numerics::add_f32(s[4 * j + 2], s[4 * j + 3]);
    }
#pragma unroll
    for (int d = 1; d < 8; d *= 2) {
#pragma unroll
      for (int j = 0; j < 8; j += 2 * d)
        u[j] = numerics::add_f32(u[j], u[j + d]), l[j] = numerics::add_f32(l[j], l[j + d]);
    }
    upper.l = numerics::fma_f32(upper.l, upper.a, u[0]);
    lower.l = numerics::fma_f32(lower.l, lower.a, l[0]);
  }
  EADEM_DEVICE void values_done(bool pending) {
    if (!pending) return;
    wgmma_wait<0>();
    pin(o);
    release_values();
  }
  // Scores of a block to the weights of its keys. `pending`: P V of the block before is under way.
  template <bool kMasked>
  EADEM_DEVICE void soften(int upper_far, bool pending) {
    if constexpr (kMasked) hide(upper_far, numerics::kMinusInfinity);
    if (!kMasked && all_quiet()) {
      values_done(pending);
      upper.a = lower.a = 1.0f;
      weigh<false>();
    } else {
      const Moved moved = move_references(largest());
      values_done(pending);
      rescale(moved);
      weigh<true>();
    }
    if constexpr (kMasked) hide(upper_far, 0.0f);
    add_to_l();
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = packed_operands(s[2 * i], s[2 * i + 1]);
  }

  // The sums of the splits before, 16 bytes a thread at a time.
  EADEM_DEVICE float4 total(int i) const {
    if constexpr (T::kTotalShared) return shared_load(T::kTotal + group * T::kTotalBytes + (i * 128 + thread) * 16);
    const float* at = a.totals + (static_cast<size_t>(blockIdx.x) * T::kGroups + group) * (T::kTotalBytes / 4);
    return reinterpret_cast<const float4*>(at)[i * 128 + thread];
  }
  EADEM_DEVICE void set_total(int i, const float* v) {
    if constexpr (T::kTotalShared) {
      shared_store(T::kTotal + group * T::kTotalBytes + (i * 128 + thread) * 16, v[0], v[1], v[2], v[3]);
    } else {
      float* at = a.totals + (static_cast<size_t>(blockIdx.x) * T::kGroups + group) * (T::kTotalBytes / 4);
      reinterpret_cast<float4*>(at)[i * 128 + thread] = make_float4(v[0], v[1], v[2], v[3]);
    }
  }
  // The split at hand joins the sums of those before; the result stays in o and goes to the totals unless it is the
  // last. A split that shows a row no key (m = -inf, l = O = 0) changes nothing: its factor meets zeros only.
  EADEM_DEVICE void merge(bool last) {
    upper.l = quad_sum(upper.l), lower.l = quad_sum(lower.l);
    const bool have_total = upper.total_m != numerics::kMinusInfinity || lower.total_m != numerics::kMinusInfinity;
    if (!T::kSplits || !__any_sync(~0u, have_total)) {
      upper.total_m = upper.m, lower.total_m = lower.m, upper.total_l = upper.l, lower.total_l = lower.l;
    } else {
      // merge_factors of both rows: each lane of a quad takes one of the four powers.
      const bool of_part = thread & 1, of_lower = thread & 2;
      const float mine = of_part ? (of_lower ? lower.m : upper.m) : (of_lower ? lower.total_m : upper.total_m);
      upper.total_m = upper.total_m > upper.m ? upper.total_m : upper.m;
      lower.total_m = lower.total_m > lower.m ? lower.total_m : lower.m;
      const float factor = numerics::merge_factor(mine, of_lower ? lower.total_m : upper.total_m, a.c);
      const numerics::MergeFactors u = {upper.total_m, __shfl_sync(~0u, factor, 0, 4), __shfl_sync(~0u, factor, 1, 4)};
      const numerics::MergeFactors l = {lower.total_m, __shfl_sync(~0u, factor, 2, 4), __shfl_sync(~0u, factor, 3, 4)};
#pragma unroll
      for (int i = 0; i < kRegisters; i += 8) {  // few at a time: the scores of the next block hold registers too
        float4 t[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) t[j] = total(i / 4 + j);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float* d = o + i + 4 * j;
          d[0] = numerics::merge(t[j].x, u.e1, d[0], u.e2), d[1] = numerics::merge(t[j].y, u.e1, d[1], u.e2);
          d[2] = numerics::merge(t[j].z, l.e1, d[2], l.e2), d[3] = numerics::merge(t[j].w, l.e1, d[3], l.e2);
          asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]));
        }
      }
      upper.total_l = numerics::merge(upper.total_l, u.e1, upper.l, u.e2);
      lower.total_l = numerics::merge(lower.total_l, l.e1, lower.l, l.e2);
    }
    if (last) return;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) set_total(i, o + 4 * i);
    begin_split();
  }
  EADEM_DEVICE void begin_split() {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) o[i] = 0.0f;
    upper.m = lower.m = upper.quiet = lower.quiet = numerics::kMinusInfinity;
    upper.l = lower.l = 0.0f;
  }

  template <bool kMasked>
  EADEM_DEVICE void step(int block, int upper_far) {
    if (T::kSplits && block % 16 == 0) {  // the merge has no registers for scores
      add_values();
      wgmma_wait<0>();
      pin(o);
      merge(false);
      scores();
      wgmma_wait<0>();
    } else {
      scores();
      add_values();
      wgmma_wait<1>();
    }
    pin(s);
    release_keys();
    soften<kMasked>(upper_far, true);
  }

  EADEM_DEVICE void store_row(const PrefillRow& row, int at, int offset, int head) const {
    const float reciprocal = numerics::div_f32(1.0f, row.total_l);
    uint16_t* out = a.out + at * a.out_stride + head * a.head_size;
    bool bad = false;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) {
      const int column = 8 * i + 2 * (thread % 4);
      const float x = numerics::mul_f32(o[4 * i + offset], reciprocal);
      const float y = numerics::mul_f32(o[4 * i + offset + 1], reciprocal);
      if (column >= a.head_size) break;
      bad |= numerics::is_nan(x) || numerics::is_nan(y);
      *reinterpret_cast<uint32_t*>(out + column) = operand_pair(x, y);
    }
    if (bad) a.bad[at] = true;
  }

  // The thread's upper row in the warpgroup.
  EADEM_DEVICE int upper_line() const { return thread / 32 * 16 + thread % 32 / 4; }
  EADEM_DEVICE void store(const PrefillWork& w) const {
    const int row = w.row + 64 * group + upper_line();
    if (row < w.run.rows) store_row(upper, w.run.row_begin + row, 0, w.head);
    if (row + 8 < w.run.rows) store_row(lower, w.run.row_begin + row + 8, 2, w.head);
  }

  EADEM_DEVICE void tile() {
    const PrefillWork w = work_of(a, work, 64 * T::kGroups);
    const int row = w.row + 64 * group;
    const PrefillBlocks of_tile = blocks_of(a, w.run, w.row, 64 * T::kGroups), of_group = blocks_of(a, w.run, row, 64);
    if (of_group.begin == of_group.end) {
      group_arrive(T::kQEmpty + 8 * group, thread % 32 == 0);
      skip_keys(of_tile.end - of_tile.begin);
      skip_values(of_tile.end - of_tile.begin);
      return;
    }
    const int first = w.run.first_position + row, last = w.run.first_position + min(w.run.rows, row + 64) - 1;
    const int at = first + upper_line() - thread % 4 * 2;  // the upper row's position, less the lane's columns
    const int plain_begin = a.window == 0 || last < a.window ? 0 : (last - a.window) / 64 + 1;
    const int plain_end = (first + 1) / 64;  // blocks that every row sees whole: [plain_begin, plain_end)
    skip_keys(of_group.begin - of_tile.begin);
    skip_values(of_group.begin - of_tile.begin);
    upper = PrefillRow{}, lower = PrefillRow{};
    begin_split();
    scores();
    wgmma_wait<0>();
    pin(s);
    release_keys();
    soften<true>(at - 64 * of_group.begin, false);
#pragma unroll 1
    for (int block = of_group.begin + 1; block < of_group.end; ++block) {
      if (block >= plain_begin && block < plain_end) {
        step<false>(block, 0);
      } else {
        step<true>(block, at - 64 * block);
      }
    }
    group_arrive(T::kQEmpty + 8 * group, thread % 32 == 0);
    add_values();
    wgmma_wait<0>();
    pin(o);
    release_values();
    merge(true);
    skip_keys(of_tile.end - of_group.end);
    skip_values(of_tile.end - of_group.end);
    store(work_of(a, work, 64 * T::kGroups));
  }

  EADEM_DEVICE void run() {
#pragma unroll 1
    for (;; parities ^= 4) {
      barrier_wait(T::kQFull + 8 * group, parities >> 2 & 1);
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(work) : "r"(T::kWork + 4 * group) : "memory");
      work = __shfl_sync(~0u, work, 0);
      if (work < 0) return;
      tile();
    }
  }
};

}  // namespace eadem::kernels::cuda
