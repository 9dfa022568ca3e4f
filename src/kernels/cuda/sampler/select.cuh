// Prefixes of the total order for one row, by one block of threads: the top list, top-k and top-p. A prefix is told by
// the key of its last token. The key's upper word is found by histograms over ever narrower ranges (three at most), in
// whole numbers, so that the order of the additions cannot matter; where many tokens share the last logit, ids decide.
#pragma once

#include <type_traits>

#include "kernels/cuda/counts.cuh"
#include "kernels/cuda/sampler/row_state.cuh"

namespace eadem::kernels::cuda {

inline constexpr int kSelectThreads = 1024;
inline constexpr int kBins = 2048;
inline constexpr unsigned long long kWholeRow = ~0ull;
inline constexpr uint32_t kNoLogit = 0xff800000u;  // upper word of the key of -infinity; NaN comes after it

struct SelectMemory {
  unsigned long long bins[kBins];
  unsigned long long warps[kSelectThreads / 32];
  unsigned long long taken;
  int bin;
  unsigned long long last;
  int listed;
  int32_t tokens[kDeviceTop];
};

// One row as the selection sees it.
struct RowView {
  const float* logits;
  int vocab;
  float temperature;  // 1: raw

  __device__ float logit(int i) const { return after_temperature(logits[i], temperature); }
  __device__ unsigned long long key(int i) const { return numerics::order_key(logit(i), static_cast<uint32_t>(i)); }
};

// What a token counts: 1 each, or its weight in top-p.
struct CountEach {
  __device__ unsigned long long operator()(float) const { return 1; }
};
struct NucleusWeight {
  float max;
  __device__ unsigned long long operator()(float logit) const { return numerics::nucleus_weight(logit, max); }
};

__device__ __forceinline__ unsigned long long block_sum(unsigned long long x, SelectMemory& memory) {
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) memory.warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int w = 0; w < kSelectThreads / 32; ++w) x += memory.warps[w];
  return x;
}

// memory.bin: the first bin whose running sum, after `taken`, reaches `needed`, or -1; memory.taken: the sum before it.
__device__ __forceinline__ void find_bin(SelectMemory& memory, unsigned long long taken, unsigned long long needed) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned long long a = memory.bins[2 * threadIdx.x], b = memory.bins[2 * threadIdx.x + 1];
  unsigned long long sum = a + b;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const unsigned long long left = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += left;
  }
  if (lane == 31) memory.warps[warp] = sum;
  if (threadIdx.x == 0) memory.bin = -1;
  __syncthreads();
  unsigned long long before = taken + sum - a - b;
  for (int w = 0; w < warp; ++w) before += memory.warps[w];
  if (before < needed && before + a >= needed) memory.bin = 2 * static_cast<int>(threadIdx.x), memory.taken = before;
  if (before + a < needed && before + a + b >= needed) {
    memory.bin = 2 * static_cast<int>(threadIdx.x) + 1, memory.taken = before + a;
  }
  __syncthreads();
}

// The id of the `nth` (from 1) token whose key has the upper word `upper`.
__device__ __forceinline__ uint32_t nth_of_logit(const RowView& row, uint32_t upper, unsigned long long nth,
                                                 SelectMemory& memory) {
  unsigned long long seen = 0;
  for (int base = 0; base < row.vocab; base += kSelectThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const bool equal = i < row.vocab && static_cast<uint32_t>(row.key(i) >> 32) == upper;
    const int count = __syncthreads_count(equal);
    if (seen + count < nth) {
      seen += count;
      continue;
    }
    // Its place in this tile.
    const unsigned ballot = __ballot_sync(kWholeWarp, equal);
    if (threadIdx.x % 32 == 0) memory.warps[threadIdx.x / 32] = __popc(ballot);
    __syncthreads();
    unsigned long long place = seen + __popc(ballot & ((2u << (threadIdx.x % 32)) - 1));
    for (int w = 0; w < static_cast<int>(threadIdx.x / 32); ++w) place += memory.warps[w];
    if (equal && place == nth) memory.last = static_cast<unsigned long long>(i);
    break;
  }
  __syncthreads();
  return static_cast<uint32_t>(memory.last);
}

// Narrows `high` to where `needed` tokens certainly are: among the first keys of the threads' own tokens.
__device__ __forceinline__ uint32_t bound_of_count(const RowView& row, uint32_t low, uint32_t high, int shift,
                                                   unsigned long long needed, SelectMemory& memory) {
  uint32_t own = 0xffffffffu;
  for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
    own = min(own, static_cast<uint32_t>(row.key(i) >> 32));
  }
  memory.bins[threadIdx.x] = memory.bins[threadIdx.x + kSelectThreads] = 0;
  __syncthreads();
  if (own >= low && own <= high) shared_add(&memory.bins[(own - low) >> shift], 1);
  __syncthreads();
  find_bin(memory, 0, needed);
  if (memory.bin < 0) return high;
  const unsigned long long end = low + (static_cast<unsigned long long>(memory.bin + 1) << shift) - 1;
  return end < high ? static_cast<uint32_t>(end) : high;
}

// Bits of a bin's width, so that kBins of them hold the range.
__device__ __forceinline__ int bin_shift(uint32_t low, uint32_t high) {
  const uint32_t span = high - low;  // one less than the range
  const int bits = span == 0 ? 0 : 32 - __clz(span);
  return max(0, bits - 11);
}

// The key of the last token of the shortest prefix of the order that holds `needed` (>= 1) by `measure`, among the
// tokens above -infinity with keys up to `limit`; `limit` where all of them hold less. first: the smallest key.
template <class Measure>
__device__ unsigned long long select_prefix(const RowView& row, const Measure& measure, unsigned long long needed,
                                            unsigned long long first, unsigned long long limit, SelectMemory& memory) {
  uint32_t low = static_cast<uint32_t>(first >> 32);
  uint32_t high = min(static_cast<uint32_t>(limit >> 32), kNoLogit - 1);
  unsigned long long taken = 0;
  if (std::is_same_v<Measure, CountEach> && needed <= kSelectThreads / 2) {
    high = bound_of_count(row, low, high, bin_shift(low, high), needed, memory);
  }
  for (int shift = -1; shift != 0;) {
    shift = bin_shift(low, high);
    memory.bins[threadIdx.x] = memory.bins[threadIdx.x + kSelectThreads] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
      const float logit = row.logit(i);
      const unsigned long long key = numerics::order_key(logit, static_cast<uint32_t>(i));
      const uint32_t upper = static_cast<uint32_t>(key >> 32);
      if (upper < low || upper > high || key > limit) continue;
      const unsigned long long weight = measure(logit);
      if (weight != 0) shared_add(&memory.bins[(upper - low) >> shift], weight);
    }
    __syncthreads();
    find_bin(memory, taken, needed);
    if (memory.bin < 0) return limit;
    taken = memory.taken;
    const uint32_t begin = low + (static_cast<uint32_t>(memory.bin) << shift);
    const unsigned long long end = begin + ((1ull << shift) - 1);
    low = begin;
    high = end < high ? static_cast<uint32_t>(end) : high;
    __syncthreads();
  }
  // All that is left has one logit, so that every token weighs the same.
  const unsigned long long weight = measure(logit_of_key(static_cast<unsigned long long>(low) << 32));
  const unsigned long long nth = (needed - taken + weight - 1) / weight;
  return static_cast<unsigned long long>(low) << 32 | nth_of_logit(row, low, nth, memory);
}

// The key of the first token of the order.
__device__ __forceinline__ unsigned long long first_of_order(const RowView& row, SelectMemory& memory) {
  unsigned long long first = kWholeRow;
  for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) first = min(first, row.key(i));
  return block_min<kSelectThreads>(first, memory.warps);
}

// top-k, then top-p over what it leaves.
__device__ __forceinline__ unsigned long long select_cutoff(const RowView& row, const DeviceDraw& draw,
                                                            unsigned long long first, SelectMemory& memory) {
  unsigned long long cutoff = kWholeRow;
  if (draw.top_k > 0 && draw.top_k < row.vocab) {
    cutoff = select_prefix(row, CountEach{}, static_cast<unsigned long long>(draw.top_k), first, cutoff, memory);
  }
  if (draw.top_p < 1.0f) {
    const NucleusWeight weight{logit_of_key(first)};
    unsigned long long total = 0;
    for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
      if (row.key(i) <= cutoff) total += weight(row.logit(i));
    }
    total = block_sum(total, memory);
    const unsigned long long needed = numerics::top_p_threshold(draw.top_p, total);
    cutoff = select_prefix(row, weight, needed, first, cutoff, memory);
  }
  return cutoff;
}

// The first `draw.top` tokens of the order of raw logits into `drawn`.
__device__ __forceinline__ void list_top(const RowView& row, int top, unsigned long long first, SelectMemory& memory,
                                         DeviceDrawn& drawn) {
  top = min(top, kDeviceTop);
  const unsigned long long last =
      select_prefix(row, CountEach{}, static_cast<unsigned long long>(top), first, kWholeRow, memory);
  if (threadIdx.x == 0) memory.listed = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
    const unsigned long long key = row.key(i);
    if (key > last || static_cast<uint32_t>(key >> 32) >= kNoLogit) continue;
    memory.tokens[shared_count_one(&memory.listed)] = i;
  }
  __syncthreads();
  const int i = threadIdx.x;
  if (i >= kDeviceTop) return;
  if (i >= memory.listed) {
    drawn.top_tokens[i] = -1;
    drawn.top_logits[i] = numerics::kMinusInfinity;
    return;
  }
  const unsigned long long key = row.key(memory.tokens[i]);
  int place = 0;
  for (int j = 0; j < memory.listed; ++j) place += row.key(memory.tokens[j]) < key;
  drawn.top_tokens[place] = memory.tokens[i];
  drawn.top_logits[place] = row.logits[memory.tokens[i]];
}

}  // namespace eadem::kernels::cuda
