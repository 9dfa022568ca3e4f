// Attention of many rows of a sequence by the warpgroup instructions of sm_90: the tree of mma16
// (numerics/attention.h), a tile of query rows of one head and sequence at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// Whether the kernel has this shape: mma16, head_size even, head_padded not above 128 or above 192.
bool prefill_serves(const AttentionShape& shape);

// Working memory of a call, whatever its rows.
size_t prefill_scratch_bytes(const AttentionShape& shape, int processors);

// Free order has no splits: the keys are one chain.
enum class PrefillOrder { kContract, kFree };

// Rows of a sequence from which on the kernel is worth its tile.
inline constexpr int kPrefillRows = 64;

// The rows of `runs` (host; some of call.runs, one row or more in each), every other row is left alone. call.q: 16-byte
// aligned. scratch: prefill_scratch_bytes of it, 256-byte aligned, whatever it holds.
void attention_prefill(cudaStream_t stream, const AttentionShape& shape, const DeviceAttentionCall& call,
                       const DeviceRun* runs, int run_count, int processors, void* scratch,
                       PrefillOrder order = PrefillOrder::kContract);

}  // namespace eadem::kernels::cuda
