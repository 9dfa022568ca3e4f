// Where a model's ops run: the workers of this machine with a kernel set, or a device. A transformer calls these and
// knows of neither. Pointers are to memory of where the ops run (allocate, place), unless they say "host".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace eadem::ops {

// What the ops must know of a step's rows.
struct StepRows {
  int rows = 0;
  const int32_t* tokens = nullptr;              // [rows], on a device also token_of_draw(index into drawn)
  const kernels::DeviceDrawn* drawn = nullptr;  // on a device: what the step before drew
  const int32_t* sequences = nullptr;           // [rows] index into the tables
  const int64_t* positions = nullptr;           // [rows]
  const float* cosine = nullptr;                // [rows][rotary / 2]
  const float* sine = nullptr;
  bool* bad = nullptr;                     // [rows], set where an op's result cannot be used
  std::span<const plan::RowRun> runs;      // host: the rows of each sequence
  const kernels::KvView* views = nullptr;  // without a device: [sequences] this layer's keys and values
  kernels::DeviceKv kv;                    // on a device: likewise
};

class Backend {
 public:
  // device: null for this machine. All must outlive the backend.
  Backend(const kernels::KernelSet& set, ThreadPool& pool, kernels::Device* device)
      : set_(&set), pool_(&pool), device_(device) {}

  kernels::Device* device() const { return device_; }
  int threads() const { return pool_->threads(); }
  // Packs weights and lays out KV blocks.
  const kernels::KernelSet& layout() const { return device_ != nullptr ? device_->packing() : *set_; }

  // Zero-filled.
  Result<Buffer> allocate(size_t bytes, std::string_view what) const;
  // A copy of host memory.
  Result<Buffer> place(std::span<const std::byte> bytes, std::string_view what) const;
  // The packed layer, which is in host memory, to where it will be read.
  Result<void> place(Linear& linear) const;
  // Bytes of zero.
  void clear(void* to, size_t bytes) const;
  // To host memory; waits for the ops that were called.
  void read(void* to, const void* from, size_t bytes) const;

  // Working memory of attention and of split_qkv; once, before the first call.
  Result<void> prepare_attention(const kernels::AttentionShape& shape);

  // x: [rows][n] float32; y: [rows][n_padded] operands.
  void rms_norm(const StepRows& step, const float* x, const float* weight, int n, int n_padded, float eps,
                uint16_t* y) const;
  // As Linear::run.
  void linear(const Linear& linear, const uint16_t* x, int rows, float* y, int64_t y_stride, bool add_to_y) const;
  // The layers of a stack over the same x, their outputs side by side: y is [rows][width].
  void linears(const std::vector<Linear>& stack, const uint16_t* x, int rows, float* y, int64_t width) const;
  // qkv: [rows][(heads + 2 kv_heads) * head_size], may be overwritten; q: [rows][heads][head_padded] operands. Keys and
  // values go to their blocks.
  void split_qkv(const StepRows& step, const kernels::QkvShape& shape, const kernels::AttentionShape& attention,
                 float* qkv, uint16_t* q);
  // out: [rows][out_stride] operands.
  void attention(const StepRows& step, const kernels::AttentionShape& shape, const uint16_t* q, uint16_t* out,
                 int64_t out_stride);
  // x through the gates and ups of `stack` (n outputs each) and SwiGLU. gate_up: [rows][2 n], working memory; y:
  // [rows][n_padded] operands.
  void gated(const StepRows& step, const std::vector<Linear>& stack, const uint16_t* x, float* gate_up, int n,
             int n_padded, uint16_t* y) const;
  // to[i] = from[indices[i]], rows of `width` operands.
  void gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) const;

 private:
  const kernels::KernelSet* set_;
  ThreadPool* pool_;
  kernels::Device* device_;
  std::optional<Attention> attention_;
  Buffer kv_memory_;
};

// The embedding table. On this machine its rows are read from the packed weights of a head tied to it, which lie in
// huge pages, where those tell them; else where the file lies. On a device they are operands in its memory.
class Embedding {
 public:
  // `table` [vocab, n] and `tied_head`, which was packed from it (null: there is none), must outlive the embedding and
  // stay where they are.
  static Result<Embedding> create(const Backend& backend, const TensorView& table, const Linear* tied_head);
  // h: [rows][n].
  void run(ThreadPool& pool, const StepRows& step, float* h);

 private:
  Result<void> place_table(const Backend& backend);

  const TensorView* table_ = nullptr;
  const Linear* head_ = nullptr;  // null: not read from there
  kernels::Device* device_ = nullptr;
  Buffer operands_;  // on a device: [vocab][n]; with head_: [threads][its k_padded], working memory
};

}  // namespace eadem::ops
