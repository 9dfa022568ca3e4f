// The 256-lane sum of e^(logit - max) and the draw by Gumbel noise, in one pass over a row. The lanes of a row are
// shared out among blocks of threads, for a lane's sum is a chain of its own; inside a block many threads take the
// exponentials and one a lane adds them in order. Noise is computed only where it could win.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/sampler/row_state.cuh"

namespace eadem::kernels::cuda {

inline constexpr int kRaceThreads = 256;
inline constexpr int kPartLanes = 32;  // lanes of a block of threads: a row is spread over eight
inline constexpr int kRaceSteps = 4;   // of a thread, between two barriers

// Tells cheaply, and never wrongly, that a token loses to a score. Noise of at least D needs a word of at most
// 2^32 (1 - e^(-e^-D)) < 2^32 e^-D; 0.02, a millionth of the score and 17 words leave room for every rounding here and
// in the score.
struct LoserTest {
  float scale, offset;  // log2 of the largest word that could win = logit * scale + offset

  __device__ LoserTest(float best, float temperature) {
    constexpr float kLog2E = 1.4426950408889634f;
    const float least = best - 0.02f - fabsf(best) * 0x1p-20f;
    scale = kLog2E / temperature;
    offset = 32.0f - least * kLog2E;
  }
  // 2^y by a straight line between powers of two, which lies above it.
  __device__ bool loses(float logit, uint32_t word) const {
    const float y = fminf(fmaxf(logit * scale + offset, 0.0f), 33.0f);
    const float bound = numerics::float_of(static_cast<uint32_t>((y + 127.0f) * 0x1p23f)) + 17.0f;
    return static_cast<float>(word) > bound;
  }
};

struct Racer {
  const DeviceDraw& draw;
  const RowState& state;
  float tempered_max;
  unsigned long long* best;  // of the block: shared memory

  // The exact score of a token that the test let through.
  __device__ void enter(float logit, uint32_t token, uint32_t word) const {
    const float l = after_temperature(logit, draw.temperature);
    if (l == numerics::kMinusInfinity || numerics::order_key(l, token) > state.cutoff) return;
    if (draw.min_p > 0.0f && !numerics::reaches_min_p(l, tempered_max, draw.min_p)) return;
    atomicMin(best, numerics::order_key(numerics::gumbel_score(l, word), token));
  }
};

// blockIdx.x is the part of the row, blockIdx.y the row. sums: [rows][256].
template <bool kVector>
__global__ void __launch_bounds__(kRaceThreads)
    sum_and_race_kernel(const float* logits, int vocab, const DeviceDraw* draws, RowState* states, float* sums) {
  launch_dependents();
  wait_for_prerequisites();
  constexpr int kQuads = kPartLanes / 4, kRows = kRaceThreads / kQuads;  // steps of 256 tokens taken side by side
  constexpr int kTileSteps = kRows * kRaceSteps;
  __shared__ alignas(16) float terms[2][kTileSteps][kPartLanes];
  __shared__ unsigned long long best;
  const int64_t row = blockIdx.y;
  const DeviceDraw draw = draws[row];
  const RowState state = states[row];
  if (state.bad) return;
  logits += row * vocab;
  const int lane = blockIdx.x * kPartLanes + static_cast<int>(threadIdx.x) % kQuads * 4;
  const int step = static_cast<int>(threadIdx.x) / kQuads;
  const float tempered_max = after_temperature(state.max, state.race ? draw.temperature : 1.0f);
  const uint32_t position = static_cast<uint32_t>(draw.position);
  const Racer racer{draw, state, tempered_max, &best};
  if (threadIdx.x == 0) best = state.best;
  __syncthreads();

  const int tiles = (vocab + numerics::kLanes * kTileSteps - 1) / (numerics::kLanes * kTileSteps);
  const auto token_at = [&](int tile, int u) {
    return (tile * kTileSteps + u * kRows + step) * numerics::kLanes + lane;
  };
  float sum = 0.0f;
  float next[kRaceSteps][4];
#pragma unroll
  for (int u = 0; u < kRaceSteps; ++u) load_four<kVector>(logits, vocab, token_at(0, u), next[u]);
  for (int tile = 0; tile < tiles; ++tile) {
    float x[kRaceSteps][4];
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) {
#pragma unroll
      for (int j = 0; j < 4; ++j) x[u][j] = next[u][j];
    }
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) load_four<kVector>(logits, vocab, token_at(tile + 1, u), next[u]);
    float (*const buffer)[kPartLanes] = terms[tile % 2];
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) {
      float4 e;
      e.x = numerics::exp32(numerics::sub_f32(x[u][0], state.max));
      e.y = numerics::exp32(numerics::sub_f32(x[u][1], state.max));
      e.z = numerics::exp32(numerics::sub_f32(x[u][2], state.max));
      e.w = numerics::exp32(numerics::sub_f32(x[u][3], state.max));
      *reinterpret_cast<float4*>(&buffer[u * kRows + step][static_cast<int>(threadIdx.x) % kQuads * 4]) = e;
    }
    if (state.race) {
      const LoserTest test(logit_of_key(*static_cast<volatile unsigned long long*>(&best)), draw.temperature);
#pragma unroll
      for (int u = 0; u < kRaceSteps; ++u) {
        const uint32_t token = static_cast<uint32_t>(token_at(tile, u));
        if (token >= static_cast<uint32_t>(vocab)) continue;
        const numerics::PhiloxBlock words = numerics::token_words(draw.seed, token >> 2, position);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (!test.loses(x[u][j], words.word[j])) racer.enter(x[u][j], token + j, words.word[j]);
        }
      }
    }
    __syncthreads();
    if (threadIdx.x < kPartLanes) {
#pragma unroll 8
      for (int s = 0; s < kTileSteps; ++s) sum = numerics::add_f32(sum, buffer[s][threadIdx.x]);
    }
  }
  if (threadIdx.x < kPartLanes) sums[row * numerics::kLanes + blockIdx.x * kPartLanes + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0 && state.race) atomicMin(&states[row].best, best);
}

}  // namespace eadem::kernels::cuda
