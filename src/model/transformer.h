// The transformer that all families share, read top to bottom: embed, layers (norm, q/k/v, attention, norm, SwiGLU),
// norm, head.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "model/step_inputs.h"
#include "model/tensors.h"
#include "ops/backend.h"
#include "ops/linear.h"

namespace eadem::model {

struct Layer {
  Buffer attention_norm, mlp_norm;   // float32 [hidden]
  Buffer q_norm, k_norm;             // float32 [head_size], or empty
  std::vector<ops::Linear> qkv;      // hidden -> (heads + 2 kv_heads) * head_size, stacked
  std::optional<ops::Linear> o;      // heads * head_size -> hidden, row-parallel
  std::vector<ops::Linear> gate_up;  // hidden -> 2 * intermediate
  std::optional<ops::Linear> down;   // intermediate -> hidden, row-parallel
};

class Transformer final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(const weights::Checkpoint& checkpoint, const Family& family,
                                             ModelConfig config, const ModelOptions& options);

  const ModelConfig& config() const override { return config_; }
  const ModelOptions& options() const override { return options_; }
  const kernels::AttentionShape& attention_shape() const override { return attention_shape_; }
  ThreadPool& pool() override { return pool_; }
  size_t weight_bytes() const override;
  void forward(const Batch& batch, KvPool& kv, TraceSink* trace) override;
  void finish() override;
  std::span<const bool> bad() const override;
  const uint16_t* hidden(int row) const override;
  void logits(int begin, int end, float* out) override;
  bool draws() const override { return backend_.device() != nullptr; }
  std::span<const kernels::DeviceDrawn> drawn() const override;

 private:
  Transformer(const weights::Checkpoint& checkpoint, ModelConfig config, const ModelOptions& options);
  Result<void> load_weights(const Tensors& tensors);
  Result<void> load_layer(const Tensors& tensors, int index);
  Result<void> load_linears(const Tensors& tensors, int index, Layer& layer);
  Result<void> load_vector(const Tensors& tensors, std::string_view role, int index, int64_t n, Buffer& vector);
  Result<void> place(Layer& layer);
  Result<void> allocate_workspaces();
  kernels::DeviceNeeds needs() const;
  int rows_to_fill(const Batch& batch) const;
  void begin(const Batch& batch, int padded);
  void run_step(KvPool& kv);
  kernels::ReplayKey replay_key(const KvPool& kv) const;
  void attention_block(const Layer& layer, KvPool& kv, int index);
  void mlp_block(const Layer& layer, int index);
  void draw_outputs();
  void run_head(int begin, int end, float* out);
  kernels::DeviceDrawn* drawn_there();
  void fetch_results();
  template <class T>
  void trace_rows(int layer, std::string_view op, const T* data, int64_t width);

  const weights::Checkpoint& checkpoint_;  // where the embedding table may be read (ops::Embedding)
  ModelConfig config_;
  ModelOptions options_;
  ThreadPool pool_;
  ops::Backend backend_;
  kernels::AttentionShape attention_shape_;
  kernels::QkvShape qkv_shape_;
  Rope rope_;
  int hidden_padded_, heads_width_, heads_padded_, intermediate_padded_, qkv_width_;

  std::optional<ops::Embedding> embedding_;
  std::vector<Layer> layers_;
  Buffer final_norm_;  // float32 [hidden]
  std::optional<ops::Linear> head_;

  // Workspaces for max_rows rows, of where the ops run; [rows] of each.
  Buffer h_;        // float32 [hidden], the residual stream
  Buffer x_;        // operands [hidden_padded]
  Buffer qkv_;      // float32 [qkv_width]
  Buffer q_;        // operands [heads][head_padded]
  Buffer mixed_;    // operands [heads_padded], attention's result
  Buffer gate_up_;  // float32 [2 * intermediate]
  Buffer a_;        // operands [intermediate_padded]
  Buffer outputs_;  // operands [hidden_padded], the last forward's outputs
  // bool [rows], from drawn_offset_ on DeviceDrawn [rows]: what a step says besides logits. A device's come here as one
  // copy, those of two steps in turn.
  Buffer results_;
  uint64_t id_;  // of this model among all
  size_t drawn_offset_ = 0, draw_count_ = 0;
  struct Fetched {
    Buffer here;  // as results_
    int rows = 0;
    size_t draws = 0;
    uint64_t number = 0;  // Device::landed
  };
  std::array<Fetched, 2> fetched_;  // of forward number i: element i % 2
  std::atomic<uint64_t> launched_{0}, finished_{0};
  std::optional<StepInputs> inputs_;
  int rows_ = 0, output_count_ = 0;  // of the last forward; step_.rows may be more, to fill a recording
  std::vector<kernels::KvView> views_;
  // Of a device.
  Buffer logits_;  // float32 [logit_rows_][vocab], of outputs first_logits_ ... end_logits_ - 1
  int logit_rows_ = 0, first_logits_ = 0, end_logits_ = 0;
  mutable std::vector<uint16_t> hidden_here_;  // empty: not fetched yet
  // Of the forward under way.
  ops::StepRows step_;
  const Batch* batch_ = nullptr;
  TraceSink* trace_ = nullptr;
};

}  // namespace eadem::model
