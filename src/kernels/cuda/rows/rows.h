// The steps of a batch between linear layers. Shapes are those of kernel_set.h; every pointer is device memory. Rows
// that are only there to fill a captured graph have a token, or a position, below 0: nothing of theirs is read or
// written.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// h[row][0 .. n) = the float32 of the operands of table[tokens[row]]; table: [vocab][n] operands. token_of_draw(i)
// stands for the token of drawn[i].
void embed(cudaStream_t stream, const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
           float* h);

// x: [rows][n]; y: [rows][n_padded] operands; bad[row] is set (never cleared) where an element is NaN.
void rms_norm(cudaStream_t stream, const float* x, const float* weight, int rows, int n, int n_padded, float eps,
              uint16_t* y, bool* bad);

// Keys and values go into the blocks of call.kv as attention/layout.h lays them out. No kernel of the step may write
// positions, sequences, tables, cosine or sine: they are read while the kernel before this one may still run.
void split_qkv(cudaStream_t stream, const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call,
               int rows);

// gate_up: [rows][2 n], gates first; y: [rows][n_padded] operands.
void swiglu(cudaStream_t stream, const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad);

// to[i] = from[indices[i]], rows of `width` operands. An index below 0 is skipped.
void gather(cudaStream_t stream, const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to);

}  // namespace eadem::kernels::cuda
