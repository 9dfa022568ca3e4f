// Attention over three sequences in a paged pool, whose blocks are numbered in no order.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "numerics/operand.h"
#include "ops/attention.h"

namespace eadem::test {

class AttentionInput {
 public:
  // rows[i] rows of sequence i, the last at position lengths[i] - 1.
  AttentionInput(const kernels::KernelSet& set, numerics::Numerics tree, int64_t window, std::vector<int> rows,
                 std::vector<int64_t> lengths)
      : set_(set) {
    shape_.numerics = tree;
    shape_.heads = 6, shape_.kv_heads = 2, shape_.head_size = 40, shape_.head_padded = 64;
    shape_.c = 0.228f;
    shape_.window = window;
    fill_cache(lengths);
    int row = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      runs_.push_back({static_cast<int>(i), row, row + rows[i], lengths[i] - rows[i], lengths[i] - 1});
      for (int64_t position = lengths[i] - rows[i]; position < lengths[i]; ++position, ++row)
        positions_.push_back(position);
    }
    q_.assign(positions_.size() * shape_.heads * shape_.head_padded, 0);
    for (size_t i = 0; i < q_.size(); ++i) {
      if (i % shape_.head_padded < static_cast<size_t>(shape_.head_size)) q_[i] = random_operand();
    }
  }

  std::vector<uint16_t> run(int threads, const plan::AttentionPlan& plan) const {
    ThreadPool pool(threads);
    auto attention = ops::Attention::create(set_, shape_, threads);
    const int64_t width = int64_t{shape_.heads} * shape_.head_size;
    std::vector<uint16_t> out(positions_.size() * static_cast<size_t>(width), 0xdead);
    std::unique_ptr<bool[]> bad(new bool[positions_.size()]());
    ops::AttentionCall call;
    call.q = q_.data();
    call.positions = positions_.data();
    call.runs = runs_;
    call.views = views_.data();
    call.out = out.data();
    call.out_stride = width;
    call.bad = bad.get();
    attention.value().run(pool, plan, call);
    return out;
  }

 private:
  uint16_t random_operand() {
    const float sign = random_() & 1 ? 1.0f : -1.0f;
    return numerics::bf16_operand(
        sign * std::ldexp(1.0f + static_cast<float>(random_() % 128) / 128.0f, static_cast<int>(random_() % 6) - 4));
  }

  void fill_cache(const std::vector<int64_t>& lengths) {
    int32_t blocks = 0;
    for (const int64_t length : lengths) blocks += static_cast<int32_t>((length + 63) / 64);
    const size_t head = (set_.kv_bytes(shape_) + 63) / 64 * 64;
    memory_.resize(head * shape_.kv_heads * blocks + 64);
    auto* const base = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
    int32_t next = 0;
    for (const int64_t length : lengths) {
      auto& table = tables_.emplace_back();
      for (int64_t b = 0; b < (length + 63) / 64; ++b) table.push_back((next++ * 7 + 3) % blocks);
    }
    std::vector<uint16_t> k(shape_.head_size), v(shape_.head_size);
    for (size_t i = 0; i < lengths.size(); ++i) {
      views_.push_back({base, tables_[i].data(), head * shape_.kv_heads, head});
      for (int64_t position = 0; position < lengths[i]; ++position) {
        for (int h = 0; h < shape_.kv_heads; ++h) {
          for (int d = 0; d < shape_.head_size; ++d) k[d] = random_operand(), v[d] = random_operand();
          set_.kv_write(shape_, views_[i].block(position / 64, h), static_cast<int>(position % 64), k.data(), v.data());
        }
      }
    }
  }

  const kernels::KernelSet& set_;
  kernels::AttentionShape shape_;
  std::mt19937_64 random_{5};
  std::vector<std::byte> memory_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<kernels::KvView> views_;
  std::vector<plan::RowRun> runs_;
  std::vector<int64_t> positions_;
  std::vector<uint16_t> q_;
};

}  // namespace eadem::test
