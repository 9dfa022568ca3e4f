// A draw is four kernels over all rows of the call: the largest logit; prefixes of the order where a row asks for them;
// the sum and the race; the outcome. Which rows need what is told on the device.
#include "kernels/cuda/sampler/draw.h"

#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sampler/race.cuh"
#include "kernels/cuda/sampler/select.cuh"

namespace eadem::kernels::cuda {
namespace {

using numerics::kLanes;

constexpr int kScanThreads = 256;

// blockIdx.x: the part of the row. parts: [rows][gridDim.x].
template <bool kVector>
__global__ void __launch_bounds__(kScanThreads) scan_kernel(const float* logits, int vocab, ScanPart* parts) {
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
  const unsigned long long first =
      block_min<kScanThreads>(numerics::order_key(largest, static_cast<uint32_t>(token)), warps);
  const int any_nan = __syncthreads_or(nan);
  if (threadIdx.x == 0) parts[row * gridDim.x + blockIdx.x] = {first, any_nan};
}

__device__ __forceinline__ RowState state_of(const ScanPart* parts, int part_count, const DeviceDraw& draw) {
  unsigned long long first = kWholeRow;
  int nan = 0;
  for (int p = 0; p < part_count; ++p) {
    first = min(first, parts[p].first);
    nan |= parts[p].nan;
  }
  RowState state;
  state.max = logit_of_key(first);
  state.first = static_cast<int32_t>(numerics::token_of_key(first));
  state.bad = nan ? kNan : is_finite(state.max) ? 0 : kNotFinite;
  state.race = !state.bad && needs_race(draw);
  state.cutoff = kWholeRow;
  state.best = kWholeRow;
  return state;
}

// One block a row: its state, and what the row asks for of the total order.
__global__ void __launch_bounds__(kSelectThreads)
    select_kernel(const float* logits, int vocab, int part_count, const ScanPart* parts, const DeviceDraw* draws,
                  RowState* states, DeviceDrawn* drawn) {
  __shared__ SelectMemory memory;
  const int64_t row = blockIdx.x;
  const DeviceDraw draw = draws[row];
  RowState state = state_of(parts + row * part_count, part_count, draw);
  const unsigned long long raw_first = numerics::order_key(state.max, static_cast<uint32_t>(state.first));
  const RowView raw{logits + row * vocab, vocab, 1.0f};
  if (draw.top > 0 && !state.bad) {
    list_top(raw, draw.top, raw_first, memory, drawn[row]);
    __syncthreads();
  } else if (threadIdx.x < kDeviceTop) {
    drawn[row].top_tokens[threadIdx.x] = -1;
    drawn[row].top_logits[threadIdx.x] = numerics::kMinusInfinity;
  }
  if (state.race) {
    const RowView tempered{raw.logits, vocab, draw.temperature};
    unsigned long long first = raw_first;
    if (cuts_prefix(draw, vocab)) {
      // The division may make neighbours equal, and then the lower id comes first.
      if (draw.temperature != 1.0f) first = first_of_order(tempered, memory);
      state.cutoff = select_cutoff(tempered, draw, first, memory);
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

// Few rows are spread over more blocks of threads.
template <bool kVector>
void sum_and_race(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws,
                  RowState* states, float* sums) {
  constexpr int kMany = 48;
  if (count >= kMany) {
    sum_and_race_kernel<128, kVector>
        <<<dim3(kLanes / 128, count), kRaceThreads, 0, stream>>>(logits, vocab, draws, states, sums);
  } else {
    sum_and_race_kernel<32, kVector>
        <<<dim3(kLanes / 32, count), kRaceThreads, 0, stream>>>(logits, vocab, draws, states, sums);
  }
  check_launch();
}

}  // namespace

size_t draw_scratch_bytes(int max_count, int vocab) {
  const size_t count = static_cast<size_t>(max_count);
  return padded(count * sizeof(RowState)) + padded(count * kLanes * sizeof(float)) +
         padded(count * static_cast<size_t>(scan_parts(vocab)) * sizeof(ScanPart));
}

void draw(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn,
          void* scratch) {
  const size_t rows = static_cast<size_t>(count);
  auto* memory = static_cast<std::byte*>(scratch);
  auto* const states = reinterpret_cast<RowState*>(memory);
  memory += padded(rows * sizeof(RowState));
  auto* const sums = reinterpret_cast<float*>(memory);
  memory += padded(rows * kLanes * sizeof(float));
  auto* const parts = reinterpret_cast<ScanPart*>(memory);
  const int part_count = scan_parts(vocab);
  const dim3 scan_grid(part_count, count);
  const bool vector = aligned16(logits, vocab, sizeof(float));
  if (vector) {
    scan_kernel<true><<<scan_grid, kScanThreads, 0, stream>>>(logits, vocab, parts);
  } else {
    scan_kernel<false><<<scan_grid, kScanThreads, 0, stream>>>(logits, vocab, parts);
  }
  check_launch();
  select_kernel<<<count, kSelectThreads, 0, stream>>>(logits, vocab, part_count, parts, draws, states, drawn);
  check_launch();
  if (vector) {
    sum_and_race<true>(stream, logits, count, vocab, draws, states, sums);
  } else {
    sum_and_race<false>(stream, logits, count, vocab, draws, states, sums);
  }
  outcome_kernel<<<count, kLanes, 0, stream>>>(logits, vocab, draws, states, sums, drawn);
  check_launch();
}

}  // namespace eadem::kernels::cuda
