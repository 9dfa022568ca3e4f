// Attention of a batch over paged keys and values.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "kernels/kernel_set.h"
#include "plan/attention_plan.h"

namespace eadem::ops {

struct AttentionCall {
  const uint16_t* q = nullptr;             // [rows][heads][head_padded] operands
  const int64_t* positions = nullptr;      // [rows]
  std::span<const plan::RowRun> runs;      // the sequences' rows
  const kernels::KvView* views = nullptr;  // [sequences] this layer's keys and values
  uint16_t* out = nullptr;  // [rows][out_stride] operands: heads * head_size of them, the rest is left alone
  int64_t out_stride = 0;
  bool* bad = nullptr;  // [rows]: set where a score passed its limit or a result is NaN
};

class Attention {
 public:
  // Working memory for the pool's workers, allocated once.
  static Result<Attention> create(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int threads);

  void run(ThreadPool& pool, const AttentionCall& call);
  // Under a given plan (tests).
  void run(ThreadPool& pool, const plan::AttentionPlan& plan, const AttentionCall& call);

 private:
  // One split of a (tile, KV head), and where its result lies in partial_memory_.
  struct SplitTask {
    int tile, kv_head;
    int64_t split;
    size_t offset;
  };

  kernels::SplitResult result_at(std::byte* memory, int row_heads, bool* bad) const;
  size_t result_bytes(int row_heads) const;
  kernels::AttentionRows rows_of(const AttentionCall& call, const plan::AttentionTile& tile) const;
  void finish(const AttentionCall& call, const plan::AttentionTile& tile, int kv_head,
              const kernels::SplitResult& state) const;
  void run_tile(const AttentionCall& call, const plan::AttentionTile& tile, int kv_head, int worker);
  void run_parallel_splits(ThreadPool& pool, const AttentionCall& call);

  const kernels::KernelSet* set_ = nullptr;
  kernels::AttentionShape shape_;
  std::vector<Buffer> worker_memory_;  // state and part of one tile
  std::vector<std::byte> partial_memory_;
  // Of the call under way; they keep their storage, so that a step allocates nothing.
  std::vector<plan::AttentionTile> tiles_;
  std::vector<SplitTask> split_tasks_;
  std::vector<size_t> first_tasks_;  // of each (tile, KV head)
};

}  // namespace eadem::ops
