// A unit of attention on the fma32 tree by the CUDA cores. Scores: a thread is a key and walks the leaves of the head
// for every other row-head. Weights: a warp is a row-head. Output: a thread is two neighbouring elements.
#pragma once

#include "kernels/cuda/attention/splits.cuh"
#include "numerics/operand.h"

namespace eadem::kernels::cuda {

template <int kTiles>
class Fma32Rows {
 public:
  // KV blocks in flight: as many as let two blocks of threads share a processor, where their images allow it.
  static constexpr int kStages = kTiles == 1 ? 4 : 2, kResident = kTiles <= 2 ? 2 : 1;
  static constexpr int kHead = kTiles * kKvTile;
  static constexpr int kWarps = kComputeThreads / 32;
  static constexpr int kRounds = kRowHeads / kWarps;      // row-heads of a warp in the softmax
  static constexpr int kPairs = kHead / 2;                // pairs of output elements
  static constexpr int kSets = kComputeThreads / kPairs;  // threads of a pair, each for every kSets-th row-head
  static constexpr int kMine = kRowHeads / kSets;         // row-heads of a thread in the output
  static constexpr int kTogether = kSets > 1 ? 2 : 4;     // of them in one pass over V

  struct Shared {
    alignas(16) float q[kRowHeads][kHead];
    alignas(16) float s[kRowHeads][numerics::kKvBlock];
    alignas(16) float p[kRowHeads][numerics::kKvBlock];  // the weights' operands
    float a[kRowHeads];
    float l[kRowHeads];
  };

  // queries: row-heads of kHead elements and 16 bytes.
  __device__ Fma32Rows(const SplitWork& work, const Unit& unit, Shared& shared, const unsigned char* queries)
      : work_(work), unit_(unit), shared_(shared), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {
    for (int j = threadIdx.x; j < unit.count * (kHead / 2); j += kComputeThreads) {
      const int i = j / (kHead / 2), d = j % (kHead / 2) * 2;
      const uint32_t q = *reinterpret_cast<const uint32_t*>(queries + i * (kHead * 2 + 16) + d * 2);
      *reinterpret_cast<float2*>(&shared.q[i][d]) = {low_operand(q), high_operand(q)};
    }
#pragma unroll
    for (int j = 0; j < kRounds; ++j) m_[j] = numerics::kMinusInfinity;
    named_barrier(1, kComputeThreads);
  }

  __device__ void add_block(const unsigned char* memory, int64_t block) {
    scores(memory);
    named_barrier(1, kComputeThreads);
#pragma unroll
    for (int j = 0; j < kRounds; ++j) {
      const int i = warp_ + kWarps * j;
      if (i < unit_.count) weigh(i, block, m_[j], l_[j]);
    }
    named_barrier(1, kComputeThreads);
    if (threadIdx.x < kPairs * kSets) add_values(memory + kTiles * kKvTileBytes);
  }

  // The result of a row that has one split.
  __device__ void finish_all() const {
#pragma unroll
    for (int j = 0; j < kRounds; ++j) {
      const int i = warp_ + kWarps * j;
      const float l = tree_of_threads<4>(l_[j]);
      if (i < unit_.count && lane_ == 0) shared_.l[i] = l;
    }
    named_barrier(1, kComputeThreads);
    if (threadIdx.x >= kPairs * kSets) return;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = row_head(j);
      if (i < unit_.count) finish(work_, unit_, i, 2 * pair(), o_[j], numerics::div_f32(1.0f, shared_.l[i]));
    }
  }

  __device__ void write_part(const PartView& part) const {
#pragma unroll
    for (int j = 0; j < kRounds; ++j) {
      const int i = warp_ + kWarps * j;
      const float l = tree_of_threads<4>(l_[j]);
      if (i < unit_.count && lane_ == 0) part.m[i] = m_[j], part.l[i] = l;
    }
    if (threadIdx.x >= kPairs * kSets) return;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int i = row_head(j);
      if (i < unit_.count) *reinterpret_cast<float2*>(part.o + i * kHead + 2 * pair()) = {o_[j][0], o_[j][1]};
    }
  }

 private:
  __device__ int pair() const { return static_cast<int>(threadIdx.x) % kPairs; }
  __device__ int row_head(int j) const { return static_cast<int>(threadIdx.x) / kPairs + kSets * j; }

  __device__ void scores(const unsigned char* keys) const {
    const int key = static_cast<int>(threadIdx.x) % numerics::kKvBlock, half = threadIdx.x / numerics::kKvBlock;
    int i = half;
    for (; i + 6 < unit_.count; i += 8) score<4>(keys, key, i);
    for (; i + 2 < unit_.count; i += 4) score<2>(keys, key, i);
    if (i < unit_.count) score<1>(keys, key, i);
  }

  // Row-heads i, i + 2, ...
  template <int kCount>
  __device__ void score(const unsigned char* keys, int key, int i) const {
    float acc[kCount] = {};
    const int leaves = work_.shape.head_padded / numerics::kLeaf;
#pragma unroll 1
    for (int leaf = 0; leaf < leaves; ++leaf) {
      float even[kCount] = {}, odd[kCount] = {};
#pragma unroll
      for (int chunk = 0; chunk < numerics::kLeaf / 8; ++chunk) {
        const int c = leaf * (numerics::kLeaf / 8) + chunk;
        const uint4 k = *reinterpret_cast<const uint4*>(keys + chunk_offset(key, c));
        const uint32_t words[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
        for (int w = 0; w < 4; w += 2) {
#pragma unroll
          for (int n = 0; n < kCount; ++n) {
            const float4 q = *reinterpret_cast<const float4*>(&shared_.q[i + 2 * n][8 * c + 2 * w]);
            even[n] = numerics::fma_f32(q.x, low_operand(words[w]), even[n]);
            odd[n] = numerics::fma_f32(q.y, high_operand(words[w]), odd[n]);
            even[n] = numerics::fma_f32(q.z, low_operand(words[w + 1]), even[n]);
            odd[n] = numerics::fma_f32(q.w, high_operand(words[w + 1]), odd[n]);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kCount; ++n) acc[n] = numerics::add_f32(acc[n], numerics::add_f32(even[n], odd[n]));
    }
#pragma unroll
    for (int n = 0; n < kCount; ++n) shared_.s[i + 2 * n][key] = acc[n];
  }

  // A lane has the keys 2 lane and 2 lane + 1: what l_r of r = lane % 4 adds.
  __device__ void weigh(int i, int64_t block, float& m, float& l) const {
    const Sight sight = sight_of(work_, unit_, i);
    const int64_t key = block * numerics::kKvBlock + 2 * lane_;
    const float2 s = *reinterpret_cast<const float2*>(&shared_.s[i][2 * lane_]);
    const bool visible[2] = {key >= sight.first && key <= sight.last, key + 1 >= sight.first && key + 1 <= sight.last};
    float largest = fmaxf(visible[0] ? s.x : numerics::kMinusInfinity, visible[1] ? s.y : numerics::kMinusInfinity);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, step));
    const bool seen = largest != numerics::kMinusInfinity;  // else the block leaves the row's state alone
    const float next = seen ? numerics::next_reference(m, largest, work_.shape.c) : m;
    const float a = numerics::rescale_factor(m, next, work_.shape.c);
    const float minus_mc = -numerics::mul_f32(next, work_.shape.c);
    m = next;
    if (lane_ == 0) {
      shared_.a[i] = a;
      if (seen && !(fabsf(minus_mc) <= numerics::kScoreLimit)) work_.call.bad[unit_.row + i / unit_.heads] = true;
    }
    const float p0 = visible[0] ? numerics::key_weight(s.x, work_.shape.c, minus_mc) : 0.0f;
    const float p1 = visible[1] ? numerics::key_weight(s.y, work_.shape.c, minus_mc) : 0.0f;
    float v = numerics::add_f32(p0, p1);
#pragma unroll
    for (int step = 4; step < 32; step *= 2) v = numerics::add_f32(v, __shfl_xor_sync(kWholeWarp, v, step));
    l = numerics::fma_f32(l, a, v);
    const uint32_t operands = weight_operands(p0, p1);
    *reinterpret_cast<float2*>(&shared_.p[i][2 * lane_]) = {low_operand(operands), high_operand(operands)};
  }

  __device__ void add_values(const unsigned char* values) {
#pragma unroll
    for (int j = 0; j < kMine; j += kTogether) {
      if (row_head(j) < unit_.count) add_values(values, j);
    }
  }

  // Row-heads j ... j + kTogether - 1 of this thread; what lies past the unit's is computed and never used.
  __device__ __forceinline__ void add_values(const unsigned char* values, int j) {
    const int d = 2 * pair();
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const float a = shared_.a[row_head(j + n)];
      if (a == 1.0f) continue;
      for (float& o : o_[j + n]) o = numerics::rescale_output(o, a);
    }
#pragma unroll 1
    for (int leaf = 0; leaf < numerics::kKvBlock; leaf += numerics::kLeaf) {
      float even[kTogether][2] = {}, odd[kTogether][2] = {};
#pragma unroll
      for (int key = 0; key < numerics::kLeaf; key += 4) {
        uint32_t v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          v[k] = *reinterpret_cast<const uint32_t*>(values + leaf * 128 + chunk_offset(key + k, d / 8) + d % 8 * 2);
        }
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
          const float4 p = *reinterpret_cast<const float4*>(&shared_.p[row_head(j + n)][leaf + key]);
          add_pair(even[n], p.x, v[0]);
          add_pair(odd[n], p.y, v[1]);
          add_pair(even[n], p.z, v[2]);
          add_pair(odd[n], p.w, v[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        for (int e = 0; e < 2; ++e) {
          o_[j + n][e] = numerics::add_f32(o_[j + n][e], numerics::add_f32(even[n][e], odd[n][e]));
        }
      }
    }
  }

  static __device__ __forceinline__ void add_pair(float (&sum)[2], float p, uint32_t v) {
    sum[0] = numerics::fma_f32(p, low_operand(v), sum[0]);
    sum[1] = numerics::fma_f32(p, high_operand(v), sum[1]);
  }

  const SplitWork& work_;
  const Unit& unit_;
  Shared& shared_;
  const int warp_, lane_;
  float o_[kMine][2] = {};  // row-head row_head(j), elements 2 pair, 2 pair + 1
  float m_[kRounds];        // row-head warp + 4 j
  float l_[kRounds] = {};   // l_r of r = lane % 4
};

}  // namespace eadem::kernels::cuda
