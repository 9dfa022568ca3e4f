// A draw is five kernels over all rows of the call: the largest logit; the weights of top-p, and prefixes of the order,
// where a row asks for them; the sum and the race; the outcome. Which rows need what is told on the device.
#include "kernels/cuda/sampler/draw.h"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sampler/race.cuh"
#include "kernels/cuda/sampler/select.cuh"

namespace eadem::kernels::cuda {
namespace {

using numerics::kLanes;

// blockIdx.x: the part of the row. parts: [rows][gridDim.x]; maxima: [rows][gridDim.x][kScanThreads] the largest logits
// of the threads' shares.
template <bool kVector>
__global__ void __launch_bounds__(kScanThreads)
    scan_kernel(const float* logits, int vocab, ScanPart* parts, float* maxima) {
  launch_dependents();
  wait_for_prerequisites();
  __shared__ unsigned long long warps[kScanThreads / 32];
  const int64_t row = blockIdx.y;
  logits += row * vocab;
  const int begin = blockIdx.x * kScanElements;
  float largest = numerics::kMinusInfinity;
  int token = begin + static_cast<int>(threadIdx.x) * 4;
  bool nan = false;
#pragma unroll
  for (int u = 0; u < kScanElements / kScanThreads / 4; ++u) {
    const int i = begin + (u * kScanThreads + static_cast<int>(threadIdx.x)) * 4;
    float x[4];
    load_four<kVector>(logits, vocab, i, x);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      nan |= numerics::is_nan(x[j]);
      if (x[j] > largest) largest = x[j], token = i + j;
    }
  }
  maxima[(row * gridDim.x + blockIdx.x) * kScanThreads + threadIdx.x] = largest;
  const unsigned long long first =
      block_min<kScanThreads>(numerics::order_key(largest, static_cast<uint32_t>(token)), warps);
  const int any_nan = __syncthreads_or(nan);
  if (threadIdx.x == 0) parts[row * gridDim.x + blockIdx.x] = {first, any_nan};
}

// By whole warps, each for itself.
__device__ __forceinline__ RowState state_of(const ScanPart* parts, int part_count, const DeviceDraw& draw) {
  unsigned long long first = kWholeRow;
  bool nan = false;
  for (int p = threadIdx.x % 32; p < part_count; p += 32) {
    first = min(first, parts[p].first);
    nan |= parts[p].nan != 0;
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) first = min(first, __shfl_xor_sync(kWholeWarp, first, step));
  nan = __any_sync(kWholeWarp, nan);
  RowState state;
  state.max = logit_of_key(first);
  state.first = static_cast<int32_t>(numerics::token_of_key(first));
  state.bad = nan ? kNan : is_finite(state.max) ? 0 : kNotFinite;
  state.race = !state.bad && needs_race(draw);
  state.cutoff = kWholeRow;
  state.best = kWholeRow;
  return state;
}

// The weights of a part of a row, for top-p over the whole of it. totals: [rows][gridDim.x].
template <bool kVector>
__global__ void __launch_bounds__(kScanThreads) weigh_kernel(const float* logits, int vocab, const ScanPart* parts,
                                                             const DeviceDraw* draws, unsigned long long* totals) {
  launch_dependents();
  wait_for_prerequisites();
  __shared__ unsigned long long warps[kScanThreads / 32];
  const int64_t row = blockIdx.y;
  const DeviceDraw draw = draws[row];
  if (!needs_race(draw) || !cuts_weight(draw) || cuts_count(draw, vocab)) return;
  const RowState state = state_of(parts + row * gridDim.x, gridDim.x, draw);
  if (state.bad) return;
  const float max = after_temperature(state.max, draw.temperature);
  logits += row * vocab;
  unsigned long long total = 0;
#pragma unroll
  for (int u = 0; u < kScanElements / kScanThreads / 4; ++u) {
    const int i = blockIdx.x * kScanElements + (u * kScanThreads + static_cast<int>(threadIdx.x)) * 4;
    float x[4];
    load_four<kVector>(logits, vocab, i, x);
#pragma unroll
    for (int j = 0; j < 4; ++j) total += numerics::nucleus_weight(after_temperature(x[j], draw.temperature), max);
  }
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) total += __shfl_xor_sync(kWholeWarp, total, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kScanThreads / 32; ++w) total += warps[w];
  totals[row * gridDim.x + blockIdx.x] = total;
}

// One block a row: its state, and what the row asks for of the total order.
__global__ void __launch_bounds__(kSelectThreads)
    select_kernel(const float* logits, int vocab, int part_count, const ScanPart* parts, const float* maxima,
                  const unsigned long long* totals, const DeviceDraw* draws, RowState* states, DeviceDrawn* drawn) {
  launch_dependents();
  wait_for_prerequisites();
  __shared__ SelectMemory memory;
  const int64_t row = blockIdx.x;
  const DeviceDraw draw = draws[row];
  RowState state = state_of(parts + row * part_count, part_count, draw);
  const int maxima_count = part_count * kScanThreads;
  Selection given{maxima + row * maxima_count, maxima_count,
                  numerics::order_key(state.max, static_cast<uint32_t>(state.first)), 0};
  const RowView raw{logits + row * vocab, vocab, 1.0f};
  if (draw.top > 0 && !state.bad) {
    list_top(raw, draw.top, given, memory, drawn[row]);
    __syncthreads();
  } else if (threadIdx.x < kDeviceTop) {
    drawn[row].top_tokens[threadIdx.x] = -1;
    drawn[row].top_logits[threadIdx.x] = numerics::kMinusInfinity;
  }
  if (state.race) {
    unsigned long long first = given.raw_first;
    if (cuts_count(draw, vocab) || cuts_weight(draw)) {
      if (!cuts_count(draw, vocab)) {
        for (int p = 0; p < part_count; ++p) given.weights += totals[row * part_count + p];
      }
      cut_row({raw.logits, vocab, draw.temperature}, draw, given, first, state.cutoff, memory);
    }
    // The first of the order passes every filter, so that its score is one to beat.
    const uint32_t favourite = numerics::token_of_key(first);
    const uint32_t word = numerics::token_word(draw.seed, favourite, static_cast<uint32_t>(draw.position));
    const float logit = after_temperature(raw.logits[favourite], draw.temperature);
    state.best = numerics::order_key(numerics::gumbel_score(logit, word), favourite);
  }
  if (threadIdx.x == 0) states[row] = state;
}

// One block a row.
__global__ void __launch_bounds__(kLanes)
    outcome_kernel(const float* logits, int vocab, const DeviceDraw* draws, const RowState* states, const float* sums,
                   DeviceDrawn* drawn) {
  launch_dependents();
  wait_for_prerequisites();
  __shared__ float warps[kLanes / 32];
  const int64_t row = blockIdx.x;
  const RowState state = states[row];
  const float sum = tree_of_threads<32>(sums[row * kLanes + threadIdx.x]);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  DeviceDrawn& out = drawn[row];
  if (state.bad) {
    out.token = -1;
    out.max = state.bad == kNan ? numerics::canonical_nan() : state.max;
    out.sum = out.logit = numerics::canonical_nan();
    return;
  }
  float all[kLanes / 32];
#pragma unroll
  for (int w = 0; w < kLanes / 32; ++w) all[w] = warps[w];
  const int32_t forced = draws[row].forced;
  out.token = forced >= 0  ? forced
              : state.race ? static_cast<int32_t>(numerics::token_of_key(state.best))
                           : state.first;
  out.max = state.max;
  out.sum = tree_of_values(all);
  out.logit = logits[row * vocab + out.token];
}

int scan_parts(int vocab) { return (vocab + kScanElements - 1) / kScanElements; }

size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

// The parts of the working memory.
struct Memory {
  RowState* states;
  float* sums;
  ScanPart* parts;
  float* maxima;
  unsigned long long* totals;
  size_t bytes;

  Memory(void* scratch, int max_count, int vocab) {
    const size_t rows = static_cast<size_t>(max_count), part_count = static_cast<size_t>(scan_parts(vocab));
    auto* const begin = static_cast<std::byte*>(scratch);
    bytes = 0;
    const auto take = [&](auto*& part, size_t count) {
      part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(begin + bytes);
      bytes += padded(count * sizeof *part);
    };
    take(states, rows);
    take(sums, rows * kLanes);
    take(parts, rows * part_count);
    take(maxima, rows * part_count * kScanThreads);
    take(totals, rows * part_count);
  }
};

constexpr int kFewDraws = 16;

template <bool kVector, bool kFew>
void launch_race(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws,
                 const Memory& m) {
  using Cut = RaceCut<kFew>;
  launch(sum_and_race_kernel<kVector, kFew>, dim3(kLanes / Cut::kPartLanes, count), Cut::kBlockThreads, 0, stream,
         logits, vocab, draws, m.states, m.sums);
}

template <bool kVector>
void draw(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn,
          const Memory& m) {
  const int part_count = scan_parts(vocab);
  const dim3 by_parts(part_count, count);
  launch(scan_kernel<kVector>, by_parts, kScanThreads, 0, stream, logits, vocab, m.parts, m.maxima);
  launch(weigh_kernel<kVector>, by_parts, kScanThreads, 0, stream, logits, vocab, m.parts, draws, m.totals);
  launch(select_kernel, count, kSelectThreads, 0, stream, logits, vocab, part_count, m.parts, m.maxima, m.totals, draws,
         m.states, drawn);
  if (count <= kFewDraws) {
    launch_race<kVector, true>(stream, logits, count, vocab, draws, m);
  } else {
    launch_race<kVector, false>(stream, logits, count, vocab, draws, m);
  }
  launch(outcome_kernel, count, kLanes, 0, stream, logits, vocab, draws, m.states, m.sums, drawn);
}

}  // namespace

size_t draw_scratch_bytes(int max_count, int vocab) { return Memory(nullptr, max_count, vocab).bytes; }

void draw(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn,
          void* scratch) {
  const Memory memory(scratch, count, vocab);
  if (aligned16(logits, vocab, sizeof(float))) {
    draw<true>(stream, logits, count, vocab, draws, drawn, memory);
  } else {
    draw<false>(stream, logits, count, vocab, draws, drawn, memory);
  }
}

}  // namespace eadem::kernels::cuda
