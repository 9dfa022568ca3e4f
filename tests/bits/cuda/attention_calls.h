// Calls of attention on a CUDA device over sequences whose blocks lie scattered in a pool, and what a CPU set gives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bits/attention/harness.h"
#include "bits/cuda/device_memory.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/free/attention.h"

namespace eadem::test {

using kernels::DeviceRun;
namespace cuda = kernels::cuda;

// The output operands of one row, and whether it was flagged.
struct RowOut {
  std::vector<uint16_t> out;
  bool bad = false;
};

// By a CPU set, one row at a time.
inline RowOut cpu_row(const KernelSet& set, const Sequence& s, const Cache& cache, int64_t position) {
  const AttentionShape& shape = s.shape;
  const kernels::AttentionRows call{s.query(position), &position, 1, cache.view()};
  const int group = shape.group();
  RowOut row;
  row.out.resize(static_cast<size_t>(shape.heads * shape.head_size));
  for (int head = 0; head < shape.kv_heads; ++head) {
    detail::State total = detail::make_state(group, shape.head_padded, 0.0f);
    std::fill(total.m.begin(), total.m.end(), numerics::kMinusInfinity);
    const int64_t first = numerics::first_visible(position, shape.window) / numerics::kSplit;
    for (int64_t split = first; split <= position / numerics::kSplit; ++split) {
      detail::State part = detail::make_state(group, shape.head_padded, 0.0f);
      set.attention_split(shape, call, head, split, part.view(&row.bad));
      set.attention_merge(shape, group, total.view(&row.bad), part.view(&row.bad));
    }
    std::vector<uint16_t*> outputs;
    for (int i = 0; i < group; ++i) outputs.push_back(row.out.data() + (head * group + i) * shape.head_size);
    set.attention_finish(shape, group, total.view(&row.bad), outputs.data());
  }
  return row;
}

struct Call {
  std::vector<DeviceRun> runs;  // sequence 0 ... 2 share one text; their blocks lie elsewhere
  void add(int sequence, int64_t position, int rows) {
    const int begin = runs.empty() ? 0 : runs.back().row_end;
    runs.push_back({sequence, begin, begin + rows, position, position + rows - 1});
  }
  int rows() const { return runs.back().row_end; }
};

inline constexpr int kSequences = 3;

// The sequence's keys and values three times in one pool, blocks shuffled; garbage behind the written positions.
struct Pool {
  std::vector<std::byte> memory;
  std::vector<int32_t> tables;
  int64_t table_stride;
  size_t block_bytes, head_bytes;

  explicit Pool(const Sequence& s) {
    const int64_t blocks = s.length / numerics::kKvBlock + 1;
    table_stride = blocks + 3;
    head_bytes = cuda::kv_bytes(s.shape);
    block_bytes = head_bytes * static_cast<size_t>(s.shape.kv_heads);
    memory.resize(block_bytes * static_cast<size_t>(kSequences * blocks));
    std::vector<int32_t> ids(static_cast<size_t>(kSequences * blocks));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    Random random(3);
    for (size_t i = ids.size(); i > 1; --i)
      std::swap(ids[i - 1], ids[static_cast<size_t>(random.below(static_cast<int>(i)))]);
    tables.assign(static_cast<size_t>(kSequences * table_stride), -1);
    const std::vector<uint16_t> garbage(static_cast<size_t>(s.shape.head_size), numerics::bf16_operand(-0x1p49f));
    for (int64_t q = 0; q < kSequences; ++q) {
      for (int64_t b = 0; b < blocks; ++b)
        tables[static_cast<size_t>(q * table_stride + b)] = ids[static_cast<size_t>(q * blocks + b)];
      for (int64_t j = 0; j < blocks * numerics::kKvBlock; ++j) {
        const int32_t block = tables[static_cast<size_t>(q * table_stride + j / numerics::kKvBlock)];
        for (int head = 0; head < s.shape.kv_heads; ++head) {
          std::byte* at =
              memory.data() + static_cast<size_t>(block) * block_bytes + static_cast<size_t>(head) * head_bytes;
          const bool written = j < s.length;
          cuda::kv_write(s.shape, at, static_cast<int>(j % numerics::kKvBlock),
                         written ? s.key(head, j) : garbage.data(), written ? s.value(head, j) : garbage.data());
        }
      }
    }
  }
};

// Rows of a call on the device. Rows of runs at negative positions are padding.
inline std::vector<RowOut> device_rows(const Sequence& s, const Pool& pool, const Call& call, int64_t max_positions,
                                       kernels::SumOrder order = kernels::SumOrder::kContract) {
  const AttentionShape& shape = s.shape;
  const int rows = call.rows();
  const size_t q_width = static_cast<size_t>(shape.heads * shape.head_padded),
               width = static_cast<size_t>(shape.heads * shape.head_size);
  const int64_t stride = static_cast<int64_t>(width) + 32;
  std::vector<uint16_t> q;
  std::vector<int64_t> positions;
  std::vector<int32_t> sequences;
  for (const DeviceRun& run : call.runs) {
    for (int r = run.row_begin; r < run.row_end; ++r) {
      const int64_t position = run.first_position + (r - run.row_begin);
      positions.push_back(position);
      sequences.push_back(run.sequence);
      if (position < 0) {
        q.insert(q.end(), q_width, 0x7fc0);
      } else {
        q.insert(q.end(), s.query(position), s.query(position) + q_width);
      }
    }
  }
  const DeviceArray<uint16_t> dq(q), out(std::vector<uint16_t>(static_cast<size_t>(rows * stride), 0xabcd));
  const DeviceArray<int64_t> dpositions(positions);
  const DeviceArray<int32_t> dsequences(sequences), dtables(pool.tables);
  const DeviceArray<std::byte> kv(pool.memory);
  const DeviceArray<uint8_t> bad(static_cast<size_t>(rows));
  const kernels::DeviceFacts facts = device_facts();
  const bool free_order = order == kernels::SumOrder::kFree;
  const DeviceArray<std::byte> scratch(free_order ? cuda::free_attention_scratch_bytes(facts, shape)
                                                  : cuda::attention_scratch_bytes(facts, shape, rows, max_positions));
  kernels::DeviceAttentionCall device;
  device.q = dq.data(), device.positions = dpositions.data(), device.sequences = dsequences.data(), device.rows = rows;
  device.runs = call.runs.data(), device.run_count = static_cast<int>(call.runs.size());
  device.kv = {kv.data(), dtables.data(), pool.table_stride, pool.block_bytes, pool.head_bytes};
  device.out = out.data(), device.out_stride = stride, device.bad = reinterpret_cast<bool*>(bad.data());
  // Twice with the same working memory: its counters must be as they were.
  for (int time = 0; time < 2; ++time) {
    if (free_order) {
      cuda::free_attention(nullptr, facts, shape, device, max_positions, scratch.data());
    } else {
      cuda::attention(nullptr, facts, shape, device, rows, max_positions, scratch.data());
    }
  }
  finish_kernels();
  const auto bytes = out.host();
  const auto flags = bad.host();
  std::vector<RowOut> result(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    const uint16_t* row = bytes.data() + r * stride;
    result[static_cast<size_t>(r)] = {{row, row + width}, flags[static_cast<size_t>(r)] != 0};
    for (int64_t i = static_cast<int64_t>(width); i < stride; ++i) EXPECT_EQ(row[i], 0xabcd) << "past the row's end";
  }
  return result;
}

inline std::string name_of(const AttentionShape& shape) {
  return std::string(numerics::short_name(shape.numerics)) + " " + std::to_string(shape.heads) + "/" +
         std::to_string(shape.kv_heads) + " heads of " + std::to_string(shape.head_size) + ", window " +
         std::to_string(shape.window);
}

// One row each, at the edges of blocks and splits.
inline Call single_rows(int64_t length) {
  Call call;
  int sequence = 0;
  for (int64_t position :
       {0, 1, 5, 62, 63, 64, 65, 127, 500, 1022, 1023, 1024, 1025, 1100, 2046, 2047, 2048, 2049, 2110, 2500}) {
    if (position < length) call.add(sequence++ % kSequences, position, 1);
  }
  call.add(0, -1, 1);
  return call;
}

inline Call mixed_runs() {
  Call call;
  call.add(0, 0, 3);
  call.add(1, 60, 7);
  call.add(2, 1020, 9);
  call.add(0, 2040, 33);
  call.add(1, 1500, 1);
  call.add(1, 100, 17);
  call.add(2, 2100, 2);
  return call;
}

}  // namespace eadem::test
