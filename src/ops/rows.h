// Ops on the rows of a batch, each row on its own: embedding, norm, q/k/v after their projection, SwiGLU.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "kernels/kernel_set.h"
#include "ops/linear.h"

namespace eadem::ops {

// h[row][0 .. columns) = the float32 of the operands of the table's row tokens[row].
void embed(ThreadPool& pool, const TensorView& table, const int32_t* tokens, int rows, float* h);
// The same from a layer that was packed from the table and tells its rows. memory: operands [k_padded] for each thread.
void embed(ThreadPool& pool, const Linear& head, const int32_t* tokens, int rows, uint16_t* memory, float* h);

// y[row] = operands of RMSNorm(x[row]); x: [rows][n], y: [rows][n_padded]. Sets bad[row] where a value is NaN.
void rms_norm(ThreadPool& pool, const kernels::KernelSet& set, const float* x, const float* weight, int rows, int n,
              int n_padded, float eps, uint16_t* y, bool* bad);

// gate_up: [rows][2 n] -> operands [rows][n_padded].
void swiglu(ThreadPool& pool, const kernels::KernelSet& set, const float* gate_up, int rows, int n, int n_padded,
            uint16_t* y, bool* bad);

struct QkvCall {
  float* qkv = nullptr;           // [rows][(heads + 2 kv_heads) * head_size], overwritten
  const float* cosine = nullptr;  // [rows][rotary / 2]
  const float* sine = nullptr;
  const int64_t* positions = nullptr;  // [rows]
  const int32_t* sequences = nullptr;  // [rows] index into views
  const kernels::KvView* views = nullptr;
  uint16_t* q = nullptr;          // [rows][heads][head_padded]
  uint16_t* kv_memory = nullptr;  // working memory: kv_memory_of elements for each thread of the pool
  bool* bad = nullptr;            // [rows]
};

// Elements in which a thread holds the keys and values of some rows until they go to their blocks.
int64_t kv_memory_of(const kernels::AttentionShape& shape);

// q/k norm, rope, operands; keys and values go to their blocks.
void split_qkv(ThreadPool& pool, const kernels::KernelSet& set, const kernels::QkvShape& shape,
               const kernels::AttentionShape& attention, const QkvCall& call, int rows);

}  // namespace eadem::ops
