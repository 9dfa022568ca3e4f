#include "kernels/cuda/linear/stream.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/cuda/launch_config.h"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/stream_args.h"
#include "kernels/cuda/tensor_map.h"

namespace eadem::kernels::cuda {
namespace {

constexpr int kAlign = 1024;        // of stages and of what the swizzle counts from
constexpr int kStaticBytes = 2048;  // of a CTA: its barriers, and what the driver takes of its shared memory
constexpr int kProcessorBytes = 228 * 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of `k_padded` elements in boxes of block rows x 128 bytes; rows past the last are zeros.
CUtensorMap map_rows(const LinearShape& s, const void* data, int rows, int block_rows) {
  const bool int8 = s.numerics == Numerics::kInt8;
  const auto k = static_cast<uint64_t>(s.k_padded);
  return make_tensor_map(data, int8 ? TensorElement::kUint8 : TensorElement::kBf16, {k, static_cast<uint64_t>(rows)},
                         {int8 ? k : 2 * k}, {static_cast<uint32_t>(tile_k(s)), static_cast<uint32_t>(block_rows)});
}

// Dynamic shared memory of a CTA.
int cta_bytes(const LinearPlan& plan) { return kProcessorBytes / plan.residents - kStaticBytes; }

int levels_of(const LinearShape& s, const LinearPlan& plan) {
  if (s.shards == 1) return 0;
  return s.shards / plan.split <= 2 ? 1 : 2;
}

// Where the sums of a cluster's CTAs meet.
int exchange_bytes(const LinearPlan& plan) {
  return plan.split == 1 ? 0 : std::max(plan.group_rows() / 2, plan.split) * linear_threads(plan) * 4;
}

// The parts of a stage, and how many there are.
void lay_out_ring(const LinearPlan& plan, StreamArgs& a) {
  const LinearShape& s = a.shape;
  a.x_offset = static_cast<int>(numerics::round_up(a.item_outputs * kTileRowBytes, kAlign));
  a.x_bytes = plan.own_rows > 0 ? 0 : plan.rows * kTileRowBytes;
  a.side_offset = a.x_offset + a.x_bytes;
  a.x_side_offset = a.side_offset;
  if (s.numerics == Numerics::kInt8) {
    a.entry_bytes = side_floats(s) * 4;
    a.x_side_offset += a.item_outputs * a.entry_bytes;
    a.x_side_bytes = plan.own_rows > 0 ? 0 : side_floats(s) * plan.rows * 4;
  }
  a.stage_bytes = static_cast<int>(numerics::round_up(a.x_side_offset + a.x_side_bytes, kAlign));
  // A last warpgroup of few outputs reads 64 rows of weights all the same: they must lie inside the memory.
  const int last_read = plan.warpgroups == 0 ? 0 : ((plan.warpgroups - 1) * plan.outputs + 64) * kTileRowBytes;
  // Half of a pair's sums go through memory.
  const int exchange = a.gated ? plan.rows / 2 * linear_threads(plan) / 2 * 4 : exchange_bytes(plan);
  a.own_rows_kept = plan.own_rows;
  a.own_tile_bytes = plan.own_rows * kTileRowBytes;
  a.own_scale_bytes = plan.own_rows == 1 ? 8 : plan.own_rows * 4;
  const int own_bytes = k_tiles(s) / plan.split * (a.own_tile_bytes + a.own_scale_bytes);
  a.spare_bytes = static_cast<int>(numerics::round_up(std::max(exchange, last_read - a.stage_bytes), kTileRowBytes));
  a.stages = std::min((cta_bytes(plan) - kAlign - a.spare_bytes - own_bytes) / a.stage_bytes, kMaxStages);
  a.lanes = a.stages < 4 ? 1 : a.stages < 8 ? 2 : 4;
  a.exchange_offset = a.stages * a.stage_bytes;
  a.own_rows_offset = a.exchange_offset + a.spare_bytes;
  a.spare_bytes += own_bytes;
}

StreamArgs make_args(const LinearPlan& plan, const LinearCall& call, int rows, const QuantisedRows& quantised,
                     const SwigluCall* swiglu = nullptr) {
  const LinearShape& s = *call.shape;
  StreamArgs a;
  a.shape = s;
  if (swiglu != nullptr) {
    a.gated = true;
    a.operands = swiglu->y, a.operands_stride = swiglu->y_stride, a.bad = swiglu->bad;
  }
  const bool int8 = s.numerics == Numerics::kInt8;
  if (plan.own_rows > 0) {
    a.own_rows = call.x.operands;
  } else {
    a.x = map_rows(s, int8 ? static_cast<const void*>(quantised.q) : call.x.operands, rows, plan.rows);
  }
  a.weights = call.weights;
  a.sides = call.weights + tile_offset(s, row_tiles(s), 0);
  a.x_side = quantised.side;
  a.bias = call.bias, a.y = call.y, a.y_stride = call.y_stride, a.add_to_y = call.add_to_y;
  a.rows = rows;
  a.shard_k = shard_k(s), a.shard_tiles = shard_tiles(s), a.tile_k = tile_k(s), a.k_tiles = k_tiles(s);
  a.block_rows = plan.rows;
  a.outputs = plan.warpgroups == 0 ? 16 : plan.outputs;
  a.item_outputs = plan.item_outputs();
  a.row_blocks = static_cast<int>(ceil_div(rows, plan.rows));
  a.items = static_cast<int>(ceil_div(s.n, a.item_outputs)) * a.row_blocks;
  a.split = plan.split;
  a.threads = linear_threads(plan), a.workers = linear_workers(s, plan), a.producers = linear_producers(s, plan);
  lay_out_ring(plan, a);
  return a;
}

const void* kernel_of(const LinearPlan& plan, const LinearShape& s) {
  const bool warps = plan.warpgroups == 0;
  const int rows = plan.group_rows(), levels = levels_of(s, plan);
  if (s.numerics == Numerics::kMma16) {
    return warps ? mma16_warps_kernel(rows, levels) : mma16_warpgroups_kernel(rows, levels);
  }
  if (plan.own_rows > 0) return int8_own_rows_kernel(rows, levels);
  return warps ? int8_warps_kernel(s.group, s.minimum, rows, levels)
               : int8_warpgroups_kernel(s.group, s.minimum, rows, levels);
}

void launch_stream(cudaStream_t stream, const LinearPlan& plan, StreamArgs args, const void* kernel, int processors) {
  EADEM_CHECK(args.stages >= 1);
  const int bytes = kAlign + args.exchange_offset + args.spare_bytes;
  EADEM_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess);
  const int clusters = std::min(args.items, std::max(1, processors * plan.residents / plan.split));
  const LaunchConfig config(dim3(static_cast<unsigned>(clusters * plan.split)), args.workers + 32 * args.producers,
                            static_cast<size_t>(bytes), stream, plan.split);
  void* parameters[] = {&args};
  EADEM_CHECK(cudaLaunchKernelExC(config.get(), kernel, parameters) == cudaSuccess);
}

}  // namespace

int linear_threads(const LinearPlan& plan) {
  return (plan.warpgroups == 0 ? plan.outputs / 16 * 32 : plan.warpgroups * 128) * plan.row_groups;
}

// Rows that a CTA quantises are a thousand instructions or more for each of its processor's schedulers: those that
// compute may be too few to keep all of them busy, and other warps help, which then leave.
int linear_workers(const LinearShape& s, const LinearPlan& plan) {
  const int lanes = k_tiles(s) / plan.split * plan.own_rows * (kTileRowBytes / 16);
  const int quantise = std::min(lanes, 512 / plan.residents) / 32 * 32;
  return std::max(linear_threads(plan), quantise);
}

// A CTA that has a processor to itself has a warp for the weights and another one for the activations.
int linear_producers(const LinearShape& s, const LinearPlan& plan) {
  return s.numerics == Numerics::kInt8 && plan.residents == 1 && plan.own_rows == 0 ? 2 : 1;
}

int linear_registers(const LinearShape& s, const LinearPlan& plan) {
  const bool int8 = s.numerics == Numerics::kInt8;
  return int8 ? int8_registers(plan.warpgroups == 0, s.group, plan.group_rows(), levels_of(s, plan)) : kMostRegisters;
}

int linear_stages(const LinearShape& shape, const LinearPlan& plan) {
  StreamArgs a;
  a.shape = shape;
  a.item_outputs = plan.item_outputs();
  lay_out_ring(plan, a);
  return a.stages;
}

size_t quantised_bytes(const LinearShape& shape, int rows, int block_rows) {
  const int64_t side = ceil_div(rows, block_rows) * k_tiles(shape) * side_floats(shape) * block_rows * 4;
  return static_cast<size_t>(numerics::round_up(static_cast<int64_t>(rows) * shape.k_padded, 256) + side);
}

QuantisedRows quantised_rows(const LinearShape& shape, int rows, void* scratch) {
  const int64_t q_bytes = numerics::round_up(static_cast<int64_t>(rows) * shape.k_padded, 256);
  return {static_cast<int8_t*>(scratch), reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + q_bytes)};
}

void linear_stream(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors,
                   const QuantisedRows& quantised) {
  launch_stream(stream, plan, make_args(plan, call, rows, quantised), kernel_of(plan, *call.shape), processors);
}

bool linear_stream_gates(const LinearShape& shape) {
  return shape.numerics == Numerics::kMma16 && shape.shards == 1 && shape.n % (2 * kTileRows) == 0;
}

LinearPlan plan_gated(const LinearShape& shape, int rows, int processors) {
  LinearPlan plan = plan_linear(shape, rows, processors);
  if (plan.warpgroups == 0) {
    plan.outputs = static_cast<int>(numerics::round_up(plan.outputs, 32));
  } else {
    plan.outputs = static_cast<int>(numerics::round_up(plan.item_outputs() / 2, 8)), plan.warpgroups = 2;
  }
  return plan;
}

void linear_stream_gated(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, const SwigluCall& swiglu,
                         int rows, int processors) {
  EADEM_CHECK(linear_stream_gates(*call.shape) && call.bias == nullptr && plan.split == 1);
  EADEM_CHECK(plan.warpgroups == 0 ? plan.outputs % 32 == 0 : plan.warpgroups == 2);
  const void* kernel = mma16_gated_kernel(plan.rows, plan.warpgroups == 0);
  launch_stream(stream, plan, make_args(plan, call, rows, {}, &swiglu), kernel, processors);
}

}  // namespace eadem::kernels::cuda
