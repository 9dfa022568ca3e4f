#include "ops/rows.h"

#include <algorithm>
#include <functional>

#include "numerics/formats.h"
#include "numerics/operand.h"

namespace eadem::ops {
namespace {

// Elements a task should have at least: below, waking a worker costs more than the work.
constexpr int kElementsPerTask = 16384;

template <class Work>
void for_rows(ThreadPool& pool, int rows, int elements, const Work& work) {
  const int per_task = std::max(1, kElementsPerTask / std::max(1, elements));
  const auto run = [&](int task, int worker) {
    for (int row = task * per_task; row < std::min(rows, (task + 1) * per_task); ++row) work(row, worker);
  };
  pool.run((rows + per_task - 1) / per_task, std::cref(run));  // by reference, so that a step allocates nothing
}

}  // namespace

void embed(ThreadPool& pool, const TensorView& table, const int32_t* tokens, int rows, float* h) {
  const int64_t n = table.columns();
  for_rows(pool, rows, static_cast<int>(n), [&](int row, int) {
    float* const out = h + row * n;
    numerics::decode_row(table.dtype, table.row(tokens[row]), n, out);
    for (int64_t i = 0; i < n; ++i) out[i] = numerics::operand_value(numerics::bf16_operand(out[i]));
  });
}

void rms_norm(ThreadPool& pool, const kernels::KernelSet& set, const float* x, const float* weight, int rows, int n,
              int n_padded, float eps, uint16_t* y, bool* bad) {
  for_rows(pool, rows, n, [&](int row, int) {
    if (!set.rms_norm(x + int64_t{row} * n, weight, n, n_padded, eps, y + int64_t{row} * n_padded)) bad[row] = true;
  });
}

void swiglu(ThreadPool& pool, const kernels::KernelSet& set, const float* gate_up, int rows, int n, int n_padded,
            uint16_t* y, bool* bad) {
  for_rows(pool, rows, 4 * n, [&](int row, int) {
    if (!set.swiglu(gate_up + 2 * int64_t{row} * n, n, n_padded, y + int64_t{row} * n_padded)) bad[row] = true;
  });
}

int64_t kv_memory_of(const kernels::AttentionShape& shape) { return 2 * int64_t{shape.kv_heads} * shape.head_size; }

void split_qkv(ThreadPool& pool, const kernels::KernelSet& set, const kernels::QkvShape& shape,
               const kernels::AttentionShape& attention, const QkvCall& call, int rows) {
  const int width = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  for_rows(pool, rows, 4 * width, [&](int row, int worker) {
    uint16_t* const k = call.kv_memory + worker * kv_memory_of(attention);
    uint16_t* const v = k + shape.kv_heads * shape.head_size;
    const int64_t pairs = shape.rotary / 2;
    const bool good =
        set.split_qkv(shape, call.qkv + int64_t{row} * width, call.cosine + row * pairs, call.sine + row * pairs,
                      call.q + int64_t{row} * shape.heads * shape.head_padded, k, v);
    if (!good) call.bad[row] = true;
    const int64_t position = call.positions[row];
    const kernels::KvView& view = call.views[call.sequences[row]];
    for (int head = 0; head < shape.kv_heads; ++head) {
      set.kv_write(attention, view.block(position / numerics::kKvBlock, head),
                   static_cast<int>(position % numerics::kKvBlock), k + head * shape.head_size,
                   v + head * shape.head_size);
    }
  });
}

}  // namespace eadem::ops
