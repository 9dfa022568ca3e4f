// Prefixes of the total order for one row, by one block of threads: the top list, top-k and top-p. A prefix is told by
// the key of its last token. Usually the tokens that come into question are few: they are collected and sorted. Where
// they are too many, the key's upper word is found by histograms over ever narrower ranges (three at most). Both count
// in whole numbers, so that the order of the additions cannot matter.
#pragma once

#include <type_traits>

#include "kernels/cuda/counts.cuh"
#include "kernels/cuda/sampler/row_state.cuh"

namespace eadem::kernels::cuda {

inline constexpr int kSelectThreads = 1024;
inline constexpr int kBins = 2048;
inline constexpr int kListed = kBins;  // tokens that can be collected
inline constexpr unsigned long long kWholeRow = ~0ull;
inline constexpr uint32_t kNoLogit = 0xff800000u;  // upper word of the key of -infinity; NaN comes after it

struct SelectMemory {
  unsigned long long bins[kBins];
  unsigned long long list[kListed];  // keys
  unsigned long long warps[kSelectThreads / 32];
  unsigned long long taken;
  int bin;
  unsigned long long last;
  int listed;
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

// ---- By collecting --------------------------------------------------------------------------------------------------

// Sorts the list by bitonic merges: two keys a thread at most. Ends with a barrier.
__device__ __forceinline__ void sort_list(int count, SelectMemory& memory) {
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kSelectThreads) memory.list[i] = kWholeRow;
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      const int i = 2 * static_cast<int>(threadIdx.x) - static_cast<int>(threadIdx.x) % step, j = i + step;
      if (j < size) {
        const unsigned long long a = memory.list[i], b = memory.list[j];
        if ((a > b) == ((i & run) == 0)) memory.list[i] = b, memory.list[j] = a;
      }
      __syncthreads();
    }
  }
}

// memory.list: the keys of the tokens whose logit is at least `least` (and above -infinity), in order; their number, or
// -1 where there is no room. Every such token has a raw logit of at least `least_raw`.
__device__ __forceinline__ int collect(const RowView& row, float least_raw, float least, SelectMemory& memory) {
  __syncthreads();
  if (threadIdx.x == 0) memory.listed = 0;
  __syncthreads();
#pragma unroll 8
  for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
    const float raw = row.logits[i];
    if (!(raw >= least_raw)) continue;
    const float logit = after_temperature(raw, row.temperature);
    if (!(logit >= least) || logit == numerics::kMinusInfinity) continue;
    const int place = shared_count_one(&memory.listed);
    if (place < kListed) memory.list[place] = numerics::order_key(logit, static_cast<uint32_t>(i));
  }
  __syncthreads();
  const int count = memory.listed;
  if (count > kListed) return -1;
  sort_list(count, memory);
  return count;
}

// The same for the tokens with keys up to `last`, which have room.
__device__ __forceinline__ int collect_up_to(const RowView& row, unsigned long long last, SelectMemory& memory) {
  __syncthreads();
  if (threadIdx.x == 0) memory.listed = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
    const unsigned long long key = row.key(i);
    if (key > last || static_cast<uint32_t>(key >> 32) >= kNoLogit) continue;
    memory.list[shared_count_one(&memory.listed)] = key;
  }
  __syncthreads();
  const int count = memory.listed;
  sort_list(count, memory);
  return count;
}

// A raw logit that is surely no larger than any whose quotient reaches that of `raw`: some units of the last place
// lower, of the quotient where that is subnormal.
__device__ __forceinline__ float below(float raw, float temperature) {
  return temperature == 1.0f ? raw : raw - fabsf(raw) * 0x1p-20f - temperature * 0x1p-147f;
}

// The first `wanted` tokens of the order, or more, into memory.list: their number (fewer where the row has fewer), or
// -1. maxima: the largest raw logits of disjoint parts of the row, so that the wanted-th of them bounds the wanted-th
// of all.
__device__ __forceinline__ int collect_first(const RowView& row, const float* maxima, int maxima_count, int wanted,
                                             unsigned long long raw_first, SelectMemory& memory) {
  if (wanted > kListed) return -1;
  const RowView parts{maxima, maxima_count, 1.0f};
  const unsigned long long bound = select_prefix(parts, CountEach{}, static_cast<unsigned long long>(wanted),
                                                 raw_first & 0xffffffff00000000ull, kWholeRow, memory);
  const float raw = bound == kWholeRow ? numerics::kMinusInfinity : logit_of_key(bound);
  return collect(row, below(raw, row.temperature), after_temperature(raw, row.temperature), memory);
}

// The key of the last token of the shortest prefix of the first `count` in memory.list that weighs `needed`; kWholeRow
// where all of them weigh less.
__device__ __forceinline__ unsigned long long cut_list(const NucleusWeight& weight, int count,
                                                       unsigned long long needed, SelectMemory& memory) {
  for (int i = threadIdx.x; i < kBins; i += kSelectThreads) {
    memory.bins[i] = i < count ? weight(logit_of_key(memory.list[i])) : 0;
  }
  __syncthreads();
  find_bin(memory, 0, needed);
  return memory.bin < 0 ? kWholeRow : memory.list[memory.bin];
}

// What a row hands to its selection.
struct Selection {
  const float* maxima;
  int maxima_count;
  unsigned long long raw_first;  // key of the row's first token by raw logits
  unsigned long long weights;    // of all tokens, for top-p without top-k
};

// top-k, then top-p over what it leaves, by collecting. False: there are too many.
__device__ __forceinline__ bool cut_by_list(const RowView& row, const DeviceDraw& draw, const Selection& given,
                                            unsigned long long& first, unsigned long long& cutoff,
                                            SelectMemory& memory) {
  const float max = after_temperature(logit_of_key(given.raw_first), row.temperature);
  const NucleusWeight weight{max};
  if (cuts_count(draw, row.vocab)) {
    const int found = collect_first(row, given.maxima, given.maxima_count, draw.top_k, given.raw_first, memory);
    if (found < 0) return false;
    const int kept = min(found, draw.top_k);
    first = memory.list[0];
    cutoff = kept < draw.top_k ? kWholeRow : memory.list[kept - 1];
    if (!cuts_weight(draw)) return true;
    unsigned long long total = 0;
    for (int i = threadIdx.x; i < kept; i += kSelectThreads) total += weight(logit_of_key(memory.list[i]));
    total = block_sum(total, memory);
    cutoff = cut_list(weight, kept, numerics::top_p_threshold(draw.top_p, total), memory);
    return true;
  }
  // Tokens near the largest usually weigh enough; those at 23 below it weigh nothing.
  const unsigned long long needed = numerics::top_p_threshold(draw.top_p, given.weights);
  for (float distance = 3.0f; distance < 25.0f; distance *= 2.0f) {
    const float least = numerics::sub_f32(max, distance);
    const int found = collect(row, below(least * row.temperature, row.temperature), least, memory);
    if (found < 0) return false;
    first = memory.list[0];
    cutoff = cut_list(weight, found, needed, memory);
    if (cutoff != kWholeRow) return true;
  }
  return false;
}

// The same, whatever comes.
__device__ __forceinline__ void cut_row(const RowView& row, const DeviceDraw& draw, const Selection& given,
                                        unsigned long long& first, unsigned long long& cutoff, SelectMemory& memory) {
  if (cut_by_list(row, draw, given, first, cutoff, memory)) return;
  __syncthreads();
  first = first_of_order(row, memory);
  cutoff = kWholeRow;
  unsigned long long weights = given.weights;
  const NucleusWeight weight{logit_of_key(first)};
  if (cuts_count(draw, row.vocab)) {
    cutoff = select_prefix(row, CountEach{}, static_cast<unsigned long long>(draw.top_k), first, cutoff, memory);
    if (!cuts_weight(draw)) return;
    weights = 0;
    for (int i = threadIdx.x; i < row.vocab; i += kSelectThreads) {
      if (row.key(i) <= cutoff) weights += weight(row.logit(i));
    }
    weights = block_sum(weights, memory);
  }
  cutoff = select_prefix(row, weight, numerics::top_p_threshold(draw.top_p, weights), first, cutoff, memory);
}

// The first `top` tokens of the order of raw logits into `drawn`.
__device__ __forceinline__ void list_top(const RowView& row, int top, const Selection& given, SelectMemory& memory,
                                         DeviceDrawn& drawn) {
  top = min(top, kDeviceTop);
  int found = collect_first(row, given.maxima, given.maxima_count, top, given.raw_first, memory);
  if (found < 0) {
    // Too many share the last logit: only those up to the last key are wanted, and they have room.
    const unsigned long long last =
        select_prefix(row, CountEach{}, static_cast<unsigned long long>(top), given.raw_first, kWholeRow, memory);
    found = collect_up_to(row, last, memory);
  }
  const int i = threadIdx.x;
  if (i >= kDeviceTop) return;
  const bool listed = i < min(found, top);
  const uint32_t token = listed ? numerics::token_of_key(memory.list[i]) : 0;
  drawn.top_tokens[i] = listed ? static_cast<int32_t>(token) : -1;
  drawn.top_logits[i] = listed ? row.logits[token] : numerics::kMinusInfinity;
}

}  // namespace eadem::kernels::cuda
