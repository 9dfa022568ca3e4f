// Attention of a batch over paged keys and values (numerics/attention.h), any rows, both trees.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// Working memory for any call of at most `max_rows` rows whose positions are below `max_positions`. It must be zeros
// before its first call, 256-byte aligned, and attention's alone: its counters are zeros again after every call.
size_t attention_scratch_bytes(const DeviceFacts& facts, const AttentionShape& shape, int max_rows,
                               int64_t max_positions);

// Which kernels run follows from the shape and from how many rows the call's runs have, never from positions where
// every run has one row: such a call may be captured in a graph and replayed at other positions (below max_positions)
// and with other tables. A row that only fills the graph is a run of its own with a position below 0; nothing of it is
// read or written. No kernel of the step may write positions, sequences or tables: they are read while the kernel
// before this one may still run.
void attention(cudaStream_t stream, const DeviceFacts& facts, const AttentionShape& shape,
               const DeviceAttentionCall& call, int max_rows, int64_t max_positions, void* scratch);

}  // namespace eadem::kernels::cuda
