// The 256-lane sum of e^(logit - max) and the draw by Gumbel noise, in one pass over a row. The lanes of a row are
// shared out among blocks of threads, for a lane's sum is a chain of its own; inside a block many threads take the
// exponentials of a tile while one a lane adds those of the tile before in order. Noise is computed only where it could
// win.
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/sampler/row_state.cuh"

namespace eadem::kernels::cuda {

inline constexpr int kRaceThreads = 256;  // that take exponentials
inline constexpr int kRaceSteps = 4;      // of a thread, between two barriers

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

// How a row is cut. Few rows: over sixteen blocks of threads, in each of which a warp more does nothing but add. Many:
// over eight, whose first warp adds, so that a processor holds more of them.
template <bool kFew>
struct RaceCut {
  static constexpr int kPartLanes = kFew ? 16 : 32;
  static constexpr int kBlockThreads = kRaceThreads + (kFew ? 32 : 0), kBlocks = kFew ? 3 : 4;  // of a processor
  static constexpr int kFirstAdding = kFew ? kRaceThreads : 0;
  // Steps of 256 tokens that are taken side by side, and those of a tile.
  static constexpr int kQuads = kPartLanes / 4, kRows = kRaceThreads / kQuads, kTileSteps = kRows * kRaceSteps;
};

// What a thread that takes exponentials has of a tile.
template <bool kFew>
struct RaceTile {
  using Cut = RaceCut<kFew>;
  float x[kRaceSteps][4];

  __device__ static int token_at(int tile, int u) {
    const int lane = static_cast<int>(blockIdx.x) * Cut::kPartLanes + static_cast<int>(threadIdx.x) % Cut::kQuads * 4;
    const int step = tile * Cut::kTileSteps + u * Cut::kRows + static_cast<int>(threadIdx.x) / Cut::kQuads;
    return step * numerics::kLanes + lane;
  }
  template <bool kVector>
  __device__ void load(const float* logits, int vocab, int tile) {
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) load_four<kVector>(logits, vocab, token_at(tile, u), x[u]);
  }
  __device__ void exponentials(float max, float (*terms)[Cut::kPartLanes]) const {
    const int step = static_cast<int>(threadIdx.x) / Cut::kQuads,
              column = static_cast<int>(threadIdx.x) % Cut::kQuads * 4;
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) {
      float4 e;
      e.x = numerics::exp32(numerics::sub_f32(x[u][0], max));
      e.y = numerics::exp32(numerics::sub_f32(x[u][1], max));
      e.z = numerics::exp32(numerics::sub_f32(x[u][2], max));
      e.w = numerics::exp32(numerics::sub_f32(x[u][3], max));
      *reinterpret_cast<float4*>(&terms[u * Cut::kRows + step][column]) = e;
    }
  }
  __device__ void race(const Racer& racer, int vocab, int tile) const {
    const float best = logit_of_key(*static_cast<volatile unsigned long long*>(racer.best));
    const LoserTest test(best, racer.draw.temperature);
    const uint32_t position = static_cast<uint32_t>(racer.draw.position);
#pragma unroll
    for (int u = 0; u < kRaceSteps; ++u) {
      const uint32_t token = static_cast<uint32_t>(token_at(tile, u));
      if (token >= static_cast<uint32_t>(vocab)) continue;
      const numerics::PhiloxBlock words = numerics::token_words(racer.draw.seed, token >> 2, position);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!test.loses(x[u][j], words.word[j])) racer.enter(x[u][j], token + j, words.word[j]);
      }
    }
  }
};

// blockIdx.x is the part of the row, blockIdx.y the row. sums: [rows][256].
template <bool kVector, bool kFew>
__global__ void __launch_bounds__(RaceCut<kFew>::kBlockThreads, RaceCut<kFew>::kBlocks)
    sum_and_race_kernel(const float* logits, int vocab, const DeviceDraw* draws, RowState* states, float* sums) {
  using Cut = RaceCut<kFew>;
  launch_dependents();
  wait_for_prerequisites();
  __shared__ alignas(16) float terms[2][Cut::kTileSteps][Cut::kPartLanes];
  __shared__ unsigned long long best;
  const int64_t row = blockIdx.y;
  const DeviceDraw draw = draws[row];
  const RowState state = states[row];
  if (state.bad) return;
  logits += row * vocab;
  const float tempered_max = after_temperature(state.max, state.race ? draw.temperature : 1.0f);
  const Racer racer{draw, state, tempered_max, &best};
  if (threadIdx.x == 0) best = state.best;
  const int lane = static_cast<int>(threadIdx.x) - Cut::kFirstAdding;
  const bool takes = threadIdx.x < kRaceThreads, adds = lane >= 0 && lane < Cut::kPartLanes;
  const int steps = (vocab + numerics::kLanes - 1) / numerics::kLanes;
  const int tiles = (steps + Cut::kTileSteps - 1) / Cut::kTileSteps;
  float sum = 0.0f;
  RaceTile<kFew> next;
  if (takes) next.template load<kVector>(logits, vocab, 0);
  __syncthreads();
  for (int tile = 0; tile <= tiles; ++tile) {
    if (takes && tile < tiles) {
      const RaceTile<kFew> now = next;
      next.template load<kVector>(logits, vocab, tile + 1);
      now.exponentials(state.max, terms[tile % 2]);
      if (state.race) now.race(racer, vocab, tile);
    }
    if (adds && tile > 0) {
      // Terms past the row's end are +0, which changes no sum.
      const float (*const buffer)[Cut::kPartLanes] = terms[(tile - 1) % 2];
      const int count = min(Cut::kTileSteps, steps - (tile - 1) * Cut::kTileSteps);
#pragma unroll 32
      for (int s = 0; s < count; ++s) sum = numerics::add_f32(sum, buffer[s][lane]);
    }
    __syncthreads();
  }
  if (adds) sums[row * numerics::kLanes + blockIdx.x * Cut::kPartLanes + lane] = sum;
  if (threadIdx.x == 0 && state.race) atomicMin(&states[row].best, best);
}

}  // namespace eadem::kernels::cuda
