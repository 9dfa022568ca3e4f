// A unit of attention on the mma16 tree by mma.sync.m16n8k16: the row-heads are the rows of the MMA. Each of four warps
// takes 16 of a block's 64 keys for the scores and a quarter of the head's elements for the output; they meet twice a
// block, over the largest score and over the weights.
#pragma once

#include "kernels/cuda/attention/splits.cuh"

namespace eadem::kernels::cuda {

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four 8 x 8 matrices of 16-bit elements, whose rows lie at the addresses of lanes 8 i ... 8 i + 7.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
template <int kTiles>
class Mma16Rows {
 public:
  // KV blocks in flight: as many as let two blocks of threads share a processor, where their images allow it.
  static constexpr int kStages = kTiles == 1 ? 6 : 3, kResident = kTiles <= 2 ? 2 : 1;
  static constexpr int kHead = kTiles * kKvTile;
  static constexpr int kSteps = kHead / numerics::kGroup;
  static constexpr int kWarps = kComputeThreads / 32;
  static constexpr int kColumns = kHead / kWarps;  // of the output, a warp

  struct Shared {
    float4 largest[kRowHeads];  // a warp each
    float4 sums[kRowHeads][4];  // of l_0 ... l_3: a warp's 16 weights
    uint4 weights[kWarps][32];  // fragments: a warp's 16 keys are one step of the chain
  };

  // queries: row-heads of kHead elements and 16 bytes; those past the unit's hold any finite numbers.
  __device__ Mma16Rows(const SplitWork& work, const Unit& unit, Shared& shared, const unsigned char* queries)
      : work_(work), unit_(unit), shared_(shared), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {
#pragma unroll
    for (int half = 0; half < 2; ++half) sight_[half] = sight_of(work, unit, row(half));
    const uint32_t mine = shared_address(queries) + lane_ % 16 * (kHead * 2 + 16) + lane_ / 16 * 16;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) load_matrices(q_[step], mine + step * 32);
  }

  __device__ void add_block(const unsigned char* keys, int64_t block) {
    const uint32_t memory = shared_address(keys);
    float s[2][4] = {};
    scores(memory, s);
    const bool whole = all_visible(work_, unit_, block);
    const int64_t key = block * numerics::kKvBlock + warp_ * 16 + 2 * (lane_ % 4);
    uint32_t hidden = 0;  // bit 4 tile + element
    if (!whole) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int64_t j = key + i / 4 * 8 + (i & 1);
        const Sight& sight = sight_[i % 4 / 2];
        if (j < sight.first || j > sight.last) hidden |= 1u << i;
      }
    }
    tell_largest(s, hidden);
    Values v;
    load_values(memory + kTiles * kKvTileBytes, v);
    named_barrier(1, kComputeThreads);
    float a[2], minus_mc[2];
    move_reference(a, minus_mc);
    weigh(s, hidden, minus_mc);
    named_barrier(1, kComputeThreads);
    add_sums(a);
    rescale(a);
    add_values(v);
  }

  // The result of a row that has one split.
  __device__ void finish_all() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float reciprocal = numerics::div_f32(1.0f, tree_of_threads<4>(l_[half]));
      if (row(half) >= unit_.count) continue;
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        const float o[2] = {o_[t][2 * half], o_[t][2 * half + 1]};
        finish(work_, unit_, row(half), column(t), o, reciprocal);
      }
    }
  }

  __device__ void write_part(const PartView& part) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float l = tree_of_threads<4>(l_[half]);
      if (row(half) >= unit_.count) continue;
      if (warp_ == 0 && lane_ % 4 == 0) part.m[row(half)] = m_[half], part.l[row(half)] = l;
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t) {
        const float2 o = {o_[t][2 * half], o_[t][2 * half + 1]};
        *reinterpret_cast<float2*>(part.o + row(half) * kHead + column(t)) = o;
      }
    }
  }

 private:
  __device__ int row(int half) const { return lane_ / 4 + 8 * half; }
  __device__ int column(int t) const { return warp_ * kColumns + t * 8 + 2 * (lane_ % 4); }

  // s[t][e]: row-head lane / 4 + 8 (e / 2), key 16 warp + 8 t + 2 (lane % 4) + e % 2.
  __device__ void scores(uint32_t keys, float (&s)[2][4]) const {
    constexpr int kAhead = 8;  // steps whose keys are loaded together
    const int slot = warp_ * 16 + lane_ / 16 * 8 + lane_ % 8;
#pragma unroll
    for (int begin = 0; begin < kSteps; begin += kAhead) {
      uint32_t k[kAhead][4];
#pragma unroll
      for (int step = 0; step < kAhead && begin + step < kSteps; ++step) {
        load_matrices(k[step], keys + chunk_offset(slot, 2 * (begin + step) + lane_ / 8 % 2));
      }
#pragma unroll
      for (int step = 0; step < kAhead && begin + step < kSteps; ++step) {
        mma_m16n8k16(s[0], q_[begin + step], k[step][0], k[step][1]);
        mma_m16n8k16(s[1], q_[begin + step], k[step][2], k[step][3]);
      }
    }
  }

  __device__ void tell_largest(const float (&s)[2][4], uint32_t hidden) const {
    float largest[2] = {numerics::kMinusInfinity, numerics::kMinusInfinity};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float x = hidden >> i & 1 ? numerics::kMinusInfinity : s[i / 4][i % 4];
      largest[i % 4 / 2] = fmaxf(largest[i % 4 / 2], x);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        largest[half] = fmaxf(largest[half], __shfl_xor_sync(kWholeWarp, largest[half], step));
      }
      if (lane_ % 4 == 0) reinterpret_cast<float*>(&shared_.largest[row(half)])[warp_] = largest[half];
    }
  }

  __device__ void move_reference(float (&a)[2], float (&minus_mc)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = shared_.largest[row(half)];
      const float largest = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
      const bool seen = largest != numerics::kMinusInfinity;  // else the block leaves the row's state alone
      const float next = seen ? numerics::next_reference(m_[half], largest, work_.shape.c) : m_[half];
      a[half] = numerics::rescale_factor(m_[half], next, work_.shape.c);
      m_[half] = next;
      minus_mc[half] = -numerics::mul_f32(next, work_.shape.c);
      if (seen && row(half) < unit_.count && !(fabsf(minus_mc[half]) <= numerics::kScoreLimit)) {
        work_.call.bad[unit_.row + row(half) / unit_.heads] = true;
      }
    }
  }

  // The weights of this warp's keys, for all warps, and their share of l.
  __device__ void weigh(float (&p)[2][4], uint32_t hidden, const float (&minus_mc)[2]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& x = p[i / 4][i % 4];
      x = numerics::key_weight(x, work_.shape.c, minus_mc[i % 4 / 2]);
      if (hidden >> i & 1) x = 0.0f;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float even = numerics::add_f32(p[0][2 * half], p[0][2 * half + 1]);
      const float odd = numerics::add_f32(p[1][2 * half], p[1][2 * half + 1]);
      reinterpret_cast<float*>(&shared_.sums[row(half)][lane_ % 4])[warp_] = numerics::add_f32(even, odd);
    }
    shared_.weights[warp_][lane_] = {weight_operands(p[0][0], p[0][1]), weight_operands(p[0][2], p[0][3]),
                                     weight_operands(p[1][0], p[1][1]), weight_operands(p[1][2], p[1][3])};
  }

  __device__ void add_sums(const float (&a)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = shared_.sums[row(half)][lane_ % 4];
      const float v = numerics::add_f32(numerics::add_f32(x.x, x.y), numerics::add_f32(x.z, x.w));
      l_[half] = numerics::fma_f32(l_[half], a[half], v);
    }
  }

  __device__ void rescale(const float (&a)[2]) {
    if (__all_sync(kWholeWarp, a[0] == 1.0f && a[1] == 1.0f)) return;
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (a[e / 2] != 1.0f) o_[t][e] = numerics::rescale_output(o_[t][e], a[e / 2]);
      }
    }
  }

  static constexpr int kValueSteps = numerics::kKvBlock / numerics::kGroup;
  using Values = uint32_t[kValueSteps][kColumns / 16][4];

  __device__ void load_values(uint32_t values, Values& v) const {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const int slot = step * 16 + lane_ / 8 % 2 * 8 + lane_ % 8;
#pragma unroll
      for (int t = 0; t < kColumns / 16; ++t) {
        load_transposed(v[step][t], values + chunk_offset(slot, warp_ * (kColumns / 8) + 2 * t + lane_ / 16));
      }
    }
  }

  // O as the carry of a chain over the block's keys, 16 at a time.
  __device__ void add_values(const Values& v) {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      const uint4 w = shared_.weights[step][lane_];
      const uint32_t p[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int t = 0; t < kColumns / 16; ++t) {
        mma_m16n8k16(o_[2 * t], p, v[step][t][0], v[step][t][1]);
        mma_m16n8k16(o_[2 * t + 1], p, v[step][t][2], v[step][t][3]);
      }
    }
  }

  const SplitWork& work_;
  const Unit& unit_;
  Shared& shared_;
  const int warp_, lane_;
  Sight sight_[2];
  uint32_t q_[kSteps][4];
  float o_[kColumns / 8][4] = {};  // row-head as s, element column(t) + e % 2
  float m_[2] = {numerics::kMinusInfinity, numerics::kMinusInfinity};
  float l_[2] = {};  // l_r of r = lane % 4
};

}  // namespace eadem::kernels::cuda
