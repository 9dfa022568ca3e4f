#include "ops/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "numerics/attention.h"

namespace eadem::ops {
namespace {

using kernels::SplitResult;
using plan::AttentionTile;

constexpr int kMaxTileRows = 64;

// Tasks of different heads report on the same row.
void report(const AttentionCall& call, const AttentionTile& tile, const bool* bad) {
  for (int row = tile.row_begin; row < tile.row_end; ++row) {
    if (bad[row - tile.row_begin]) std::atomic_ref<bool>(call.bad[row]).store(true, std::memory_order_relaxed);
  }
}

}  // namespace

Result<Attention> Attention::create(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int threads) {
  Attention attention;
  attention.set_ = &set;
  attention.shape_ = shape;
  for (int worker = 0; worker < threads; ++worker) {
    EADEM_ASSIGN_OR_RETURN(Buffer memory, Buffer::allocate(2 * attention.result_bytes(kMaxTileRows * shape.group()),
                                                           "attention's working memory"));
    attention.worker_memory_.push_back(std::move(memory));
  }
  return attention;
}

size_t Attention::result_bytes(int row_heads) const {
  const size_t floats = static_cast<size_t>(row_heads) * (shape_.head_padded + 2);
  return (floats * sizeof(float) + 63) / 64 * 64;
}

SplitResult Attention::result_at(std::byte* memory, int row_heads, bool* bad) const {
  SplitResult result;
  result.o = reinterpret_cast<float*>(memory);  // first: aligned to 64 bytes
  result.m = result.o + static_cast<size_t>(row_heads) * shape_.head_padded;
  result.l = result.m + row_heads;
  result.bad = bad;
  return result;
}

kernels::AttentionRows Attention::rows_of(const AttentionCall& call, const AttentionTile& tile) const {
  kernels::AttentionRows rows;
  rows.q = call.q + int64_t{tile.row_begin} * shape_.heads * shape_.head_padded;
  rows.positions = call.positions + tile.row_begin;
  rows.rows = tile.row_end - tile.row_begin;
  rows.kv = call.views[tile.sequence];
  return rows;
}

void Attention::finish(const AttentionCall& call, const AttentionTile& tile, int kv_head,
                       const SplitResult& state) const {
  const int group = shape_.group();
  std::array<uint16_t*, kMaxTileRows * 32> out;
  const int count = (tile.row_end - tile.row_begin) * group;
  EADEM_CHECK(count <= static_cast<int>(out.size()));
  for (int i = 0; i < count; ++i) {
    const int head = kv_head * group + i % group;
    out[i] = call.out + (tile.row_begin + i / group) * call.out_stride + int64_t{head} * shape_.head_size;
  }
  set_->attention_finish(shape_, count, state, out.data());
}

void Attention::run_tile(const AttentionCall& call, const AttentionTile& tile, int kv_head, int worker) {
  const kernels::AttentionRows rows = rows_of(call, tile);
  const int count = rows.rows * shape_.group();
  bool bad[kMaxTileRows] = {};
  std::byte* const memory = worker_memory_[worker].data();
  const SplitResult state = result_at(memory, count, bad);
  const SplitResult part = result_at(memory + result_bytes(kMaxTileRows * shape_.group()), count, bad);
  set_->attention_split(shape_, rows, kv_head, tile.split_begin, state);
  for (int64_t split = tile.split_begin + 1; split < tile.split_end; ++split) {
    set_->attention_split(shape_, rows, kv_head, split, part);
    set_->attention_merge(shape_, count, state, part);
  }
  finish(call, tile, kv_head, state);
  report(call, tile, bad);
}

void Attention::run_parallel_splits(ThreadPool& pool, const AttentionCall& call) {
  // One task a (tile, KV head, split), each with its own result; then one task a (tile, KV head) merges them in order.
  const auto count_of = [&](int tile) { return (tiles_[tile].row_end - tiles_[tile].row_begin) * shape_.group(); };
  split_tasks_.clear(), first_tasks_.clear();
  size_t bytes = 0;
  for (int tile = 0; tile < static_cast<int>(tiles_.size()); ++tile) {
    for (int head = 0; head < shape_.kv_heads; ++head) {
      first_tasks_.push_back(split_tasks_.size());
      for (int64_t split = tiles_[tile].split_begin; split < tiles_[tile].split_end; ++split) {
        split_tasks_.push_back({tile, head, split, bytes});
        bytes += result_bytes(count_of(tile)) + kMaxTileRows;
      }
    }
  }
  if (partial_memory_.size() < bytes + 64) partial_memory_.resize(bytes + 64);
  auto* const base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(partial_memory_.data()) + 63) / 64 * 64);
  const auto result_of = [&](const SplitTask& task) {
    const int count = count_of(task.tile);
    std::byte* const memory = base + task.offset;
    return result_at(memory, count, reinterpret_cast<bool*>(memory + result_bytes(count)));
  };
  const auto attend = [&](int index, int) {
    const SplitTask& task = split_tasks_[index];
    const SplitResult result = result_of(task);
    std::memset(result.bad, 0, kMaxTileRows);
    set_->attention_split(shape_, rows_of(call, tiles_[task.tile]), task.kv_head, task.split, result);
  };
  pool.run(static_cast<int>(split_tasks_.size()), std::cref(attend));
  const auto merge = [&](int index, int) {
    const SplitTask& first = split_tasks_[first_tasks_[index]];
    const AttentionTile& tile = tiles_[first.tile];
    const SplitResult state = result_of(first);
    report(call, tile, state.bad);
    for (int64_t i = 1; i < tile.split_end - tile.split_begin; ++i) {
      const SplitResult part = result_of(split_tasks_[first_tasks_[index] + i]);
      report(call, tile, part.bad);
      set_->attention_merge(shape_, count_of(first.tile), state, part);
    }
    std::memset(state.bad, 0, kMaxTileRows);
    finish(call, tile, first.kv_head, state);
    report(call, tile, state.bad);
  };
  pool.run(static_cast<int>(first_tasks_.size()), std::cref(merge));
}

void Attention::run(ThreadPool& pool, const AttentionCall& call) {
  run(pool, plan::plan_attention(shape_, call.runs, pool.threads()), call);
}

void Attention::run(ThreadPool& pool, const plan::AttentionPlan& plan, const AttentionCall& call) {
  EADEM_CHECK(plan.tile_rows >= 1 && plan.tile_rows <= kMaxTileRows);
  EADEM_CHECK(pool.threads() <= static_cast<int>(worker_memory_.size()));
  plan::attention_tiles(shape_, call.runs, plan, tiles_);
  if (plan.parallel_splits) return run_parallel_splits(pool, call);
  const int heads = shape_.kv_heads;
  const auto attend = [&](int index, int worker) { run_tile(call, tiles_[index / heads], index % heads, worker); };
  pool.run(static_cast<int>(tiles_.size()) * heads, std::cref(attend));
}

}  // namespace eadem::ops
