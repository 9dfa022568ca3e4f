#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/stream.h"
#include "numerics/int8.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kThreads = 256;
inline constexpr int kPerLane = 4;  // operands of a lane: 8 or 32 lanes share a group

struct QuantiseArgs {
  LinearShape shape;
  const uint16_t* operands;
  int rows, block_rows;
  QuantisedRows out;
};

// int8_quantise, a group by group / 4 neighbouring lanes. The largest magnitude is that of the operands' bits: they are
// finite, so as integers they are in the same order.
__global__ void __launch_bounds__(kThreads) quantise_rows(const __grid_constant__ QuantiseArgs a) {
  launch_dependents();
  wait_for_prerequisites();
  const LinearShape& s = a.shape;
  const int64_t element = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPerLane;
  const bool valid = element < static_cast<int64_t>(a.rows) * s.k_padded;
  uint2 words = {};
  if (valid) words = *reinterpret_cast<const uint2*>(a.operands + element);
  const uint16_t x[kPerLane] = {static_cast<uint16_t>(words.x), static_cast<uint16_t>(words.x >> 16),
                                static_cast<uint16_t>(words.y), static_cast<uint16_t>(words.y >> 16)};
  int largest = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) largest = max(largest, x[i] & 0x7fff);
  const int lanes = s.group / kPerLane;
  for (int d = lanes / 2; d > 0; d /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, d));
  const float scale =
      largest == 0 ? 0.0f : numerics::div_f32(numerics::operand_value(static_cast<uint16_t>(largest)), 127.0f);
  int sum = 0;
  uint32_t packed = 0;
  if (largest != 0) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int q = static_cast<int>(numerics::rint_f32(numerics::div_f32(numerics::operand_value(x[i]), scale)));
      sum += q;
      packed |= static_cast<uint32_t>(q & 0xff) << (8 * i);
    }
  }
  for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (!valid) return;
  *reinterpret_cast<uint32_t*>(a.out.q + element) = packed;
  const int row = static_cast<int>(element / s.k_padded), k = static_cast<int>(element % s.k_padded);
  if (k % s.group != 0) return;
  const int shard = k / shard_k(s), in_shard = k % shard_k(s), groups = side_groups(s);
  const int64_t tile = static_cast<int64_t>(row / a.block_rows) * k_tiles(s) + shard * shard_tiles(s) + in_shard / 128;
  float* side =
      a.out.side + tile * side_floats(s) * a.block_rows + in_shard % 128 / s.group * a.block_rows + row % a.block_rows;
  *side = scale;
  if (s.minimum) side[groups * a.block_rows] = static_cast<float>(sum);
}

}  // namespace

void quantise(cudaStream_t stream, const LinearShape& shape, const uint16_t* operands, int rows, int block_rows,
              const QuantisedRows& out) {
  const int64_t lanes = static_cast<int64_t>(rows) * shape.k_padded / kPerLane;
  const QuantiseArgs args{shape, operands, rows, block_rows, out};
  launch(quantise_rows, dim3(static_cast<unsigned>((lanes + kThreads - 1) / kThreads)), kThreads, 0, stream, args);
}

}  // namespace eadem::kernels::cuda
