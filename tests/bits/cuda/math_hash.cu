#include "bits/cuda/math_hash.h"

#include <cuda_runtime.h>

#include <vector>

#include "core/check.h"
#include "kernels/cuda/operand.cuh"
#include "numerics/math.h"
#include "numerics/rng.h"

namespace eadem::test {
namespace {

constexpr int kBlocks = 4096, kThreads = 256;

template <Elementary kFunction>
__device__ bool evaluate(float x, float& y) {
  switch (kFunction) {
    case Elementary::kExp: y = numerics::exp32(x); return true;
    case Elementary::kLog: y = numerics::log32(x); return true;
    case Elementary::kLog1p: y = numerics::log1p32(x); return true;
    case Elementary::kSigmoid: y = numerics::sigmoid32(x); return true;
    case Elementary::kExp2p: y = numerics::exp2p(x); return x >= kExp2pLow && x <= kExp2pHigh;
    case Elementary::kExp2Full: y = numerics::exp2_full(x); return x < kExp2FullHigh;
    case Elementary::kOperand: y = numerics::float_of(kernels::cuda::operand_pair(x, x)); return true;
  }
  return false;
}

template <Elementary kFunction>
__global__ void hash_kernel(unsigned long long* sums) {
  unsigned long long hash = 0;
  const uint64_t step = uint64_t{kBlocks} * kThreads;
  for (uint64_t u = uint64_t{blockIdx.x} * kThreads + threadIdx.x; u < (uint64_t{1} << 32); u += step) {
    float y;
    if (!evaluate<kFunction>(numerics::float_of(static_cast<uint32_t>(u)), y)) continue;
    hash += numerics::splitmix64(u << 32 | numerics::bits_of(y));
  }
  sums[blockIdx.x * kThreads + threadIdx.x] = hash;
}

template <Elementary kFunction>
uint64_t hash_of() {
  constexpr size_t kCount = size_t{kBlocks} * kThreads;
  unsigned long long* sums = nullptr;
  EADEM_CHECK(cudaMalloc(&sums, kCount * sizeof *sums) == cudaSuccess);
  hash_kernel<kFunction><<<kBlocks, kThreads>>>(sums);
  std::vector<unsigned long long> host(kCount);
  EADEM_CHECK(cudaMemcpy(host.data(), sums, kCount * sizeof *sums, cudaMemcpyDeviceToHost) == cudaSuccess);
  cudaFree(sums);
  uint64_t hash = 0;
  for (const unsigned long long x : host) hash += x;
  return hash;
}

}  // namespace

uint64_t device_hash(Elementary function) {
  switch (function) {
    case Elementary::kExp: return hash_of<Elementary::kExp>();
    case Elementary::kLog: return hash_of<Elementary::kLog>();
    case Elementary::kLog1p: return hash_of<Elementary::kLog1p>();
    case Elementary::kSigmoid: return hash_of<Elementary::kSigmoid>();
    case Elementary::kExp2p: return hash_of<Elementary::kExp2p>();
    case Elementary::kExp2Full: return hash_of<Elementary::kExp2Full>();
    case Elementary::kOperand: return hash_of<Elementary::kOperand>();
  }
  return 0;
}

}  // namespace eadem::test
