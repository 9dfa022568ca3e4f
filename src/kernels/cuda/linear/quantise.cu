#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/quantise.cuh"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::cuda {
namespace {

inline constexpr int kThreads = 128;

struct QuantiseArgs {
  LinearShape shape;
  const uint16_t* operands;
  int rows, block_rows;
  QuantisedRows out;
};

// All loads of a call are under way at once: they queue behind the weights that the next kernel asks for, and a second
// round would wait as long again.
__global__ void __launch_bounds__(kThreads) quantise_rows(const __grid_constant__ QuantiseArgs a) {
  launch_dependents();
  wait_for_prerequisites();
  const LinearShape& s = a.shape;
  const int row = static_cast<int>(blockIdx.y),
            k = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kQuantisedPerLane;
  const int64_t element = static_cast<int64_t>(row) * s.k_padded + k;
  uint4 words[2] = {};
  if (k < s.k_padded) {
    words[0] = *reinterpret_cast<const uint4*>(a.operands + element);
    words[1] = *reinterpret_cast<const uint4*>(a.operands + element + 8);
  }
  const int lanes = s.group / kQuantisedPerLane;
  const QuantisedLane lane = quantise_lane(words, lanes);
  int sum = 0;
  for (const uint32_t four : {lane.q.x, lane.q.y, lane.q.z, lane.q.w}) {
    sum = __dp4a(static_cast<int>(four), 0x01010101, sum);
  }
  for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (k >= s.k_padded) return;
  *reinterpret_cast<uint4*>(a.out.q + element) = lane.q;
  if (k % s.group != 0) return;
  const int shard = k / shard_k(s), in_shard = k % shard_k(s), groups = side_groups(s);
  const int64_t tile = static_cast<int64_t>(row / a.block_rows) * k_tiles(s) + shard * shard_tiles(s) + in_shard / 128;
  float* side =
      a.out.side + tile * side_floats(s) * a.block_rows + in_shard % 128 / s.group * a.block_rows + row % a.block_rows;
  *side = lane.scale;
  if (s.minimum) side[groups * a.block_rows] = static_cast<float>(sum);
}

}  // namespace

void quantise(cudaStream_t stream, const LinearShape& shape, const uint16_t* operands, int rows, int block_rows,
              const QuantisedRows& out) {
  const int threads = (shape.k_padded + kQuantisedPerLane - 1) / kQuantisedPerLane;
  const QuantiseArgs args{shape, operands, rows, block_rows, out};
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads), static_cast<unsigned>(rows));
  launch(quantise_rows, grid, kThreads, 0, stream, args);
}

}  // namespace eadem::kernels::cuda
