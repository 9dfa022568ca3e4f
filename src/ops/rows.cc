#include "ops/rows.h"

#include <algorithm>

#include "numerics/formats.h"
#include "numerics/operand.h"
#include "ops/for_rows.h"

namespace eadem::ops {
namespace {

// Rows whose keys and values a worker holds until they go to their blocks together.
constexpr int kHeldRows = 32;

// How many rows from `row` on are of one sequence and one block of its keys and values, one position after the other.
int rows_of_block(const QkvCall& call, int row, int end) {
  int last = row;
  while (last + 1 < end && call.sequences[last + 1] == call.sequences[row] &&
         call.positions[last + 1] == call.positions[last] + 1 && call.positions[last + 1] % numerics::kKvBlock != 0) {
    ++last;
  }
  return last + 1 - row;
}

// Keys and values of rows of one block: k, v: [count][kv_heads][head_size].
void write_block(const kernels::KernelSet& set, const kernels::AttentionShape& shape, const kernels::KvView& view,
                 int64_t position, int count, const uint16_t* k, const uint16_t* v) {
  if (set.kv_write_rows != nullptr) return set.kv_write_rows(shape, view, position, count, k, v);
  for (int i = 0; i < count; ++i, ++position) {
    for (int head = 0; head < shape.kv_heads; ++head, k += shape.head_size, v += shape.head_size) {
      set.kv_write(shape, view.block(position / numerics::kKvBlock, head),
                   static_cast<int>(position % numerics::kKvBlock), k, v);
    }
  }
}

}  // namespace

void embed(ThreadPool& pool, const TensorView& table, const int32_t* tokens, int rows, float* h) {
  const int64_t n = table.columns();
  for_rows(pool, rows, static_cast<int>(n), [&](int row) {
    float* const out = h + row * n;
    numerics::decode_row(table.dtype, table.row(tokens[row]), n, out);
    for (int64_t i = 0; i < n; ++i) out[i] = numerics::operand_value(numerics::bf16_operand(out[i]));
  });
}

void embed(ThreadPool& pool, const Linear& head, const int32_t* tokens, int rows, uint16_t* memory, float* h) {
  const int n = head.shape().k;
  for_row_ranges(pool, rows, n, std::max(1, rows), [&](int begin, int end, int worker) {
    uint16_t* const operands = memory + int64_t{worker} * head.shape().k_padded;
    for (int row = begin; row < end; ++row) {
      float* const out = h + int64_t{row} * n;
      head.row(tokens[row], operands);
      for (int i = 0; i < n; ++i) out[i] = numerics::operand_value(operands[i]);
    }
  });
}

void rms_norm(ThreadPool& pool, const kernels::KernelSet& set, const float* x, const float* weight, int rows, int n,
              int n_padded, float eps, uint16_t* y, bool* bad) {
  for_rows(pool, rows, n, [&](int row) {
    if (!set.rms_norm(x + int64_t{row} * n, weight, n, n_padded, eps, y + int64_t{row} * n_padded)) bad[row] = true;
  });
}

void swiglu(ThreadPool& pool, const kernels::KernelSet& set, const float* gate_up, int rows, int n, int n_padded,
            uint16_t* y, bool* bad) {
  for_rows(pool, rows, 4 * n, [&](int row) {
    if (!set.swiglu(gate_up + 2 * int64_t{row} * n, n, n_padded, y + int64_t{row} * n_padded)) bad[row] = true;
  });
}

int64_t kv_memory_of(const kernels::AttentionShape& shape) {
  return int64_t{kHeldRows} * 2 * shape.kv_heads * shape.head_size;
}

void split_qkv(ThreadPool& pool, const kernels::KernelSet& set, const kernels::QkvShape& shape,
               const kernels::AttentionShape& attention, const QkvCall& call, int rows) {
  const int width = (shape.heads + 2 * shape.kv_heads) * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  const int64_t pairs = shape.rotary / 2;
  for_row_ranges(pool, rows, 4 * width, kHeldRows, [&](int begin, int end, int worker) {
    uint16_t* const k = call.kv_memory + worker * kv_memory_of(attention);
    uint16_t* const v = k + kHeldRows * kv_width;
    for (int row = begin; row < end; ++row) {
      const int at = (row - begin) * kv_width;
      const bool good =
          set.split_qkv(shape, call.qkv + int64_t{row} * width, call.cosine + row * pairs, call.sine + row * pairs,
                        call.q + int64_t{row} * shape.heads * shape.head_padded, k + at, v + at);
      if (!good) call.bad[row] = true;
    }
    for (int row = begin, count; row < end; row += count) {
      count = rows_of_block(call, row, end);
      const int at = (row - begin) * kv_width;
      write_block(set, attention, call.views[call.sequences[row]], call.positions[row], count, k + at, v + at);
    }
  });
}

}  // namespace eadem::ops
