// The transformer that all families share, read top to bottom: embed, layers (norm, q/k/v, attention, norm, SwiGLU),
// norm, head.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "model/tensors.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace eadem::model {

struct Layer {
  std::vector<float> attention_norm, mlp_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;            // [head_size], or empty
  std::vector<ops::Linear> qkv;                 // hidden -> (heads + 2 kv_heads) * head_size, stacked
  std::optional<ops::Linear> o;                 // heads * head_size -> hidden, row-parallel
  std::vector<ops::Linear> gate_up;             // hidden -> 2 * intermediate
  std::optional<ops::Linear> down;              // intermediate -> hidden, row-parallel
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
  std::span<const bool> bad() const override { return {bad_.get(), static_cast<size_t>(rows_)}; }
  const uint16_t* hidden(int row) const override { return x_.as<uint16_t>() + int64_t{row} * hidden_padded_; }
  void logits(int begin, int end, float* out) override;

 private:
  Transformer(const weights::Checkpoint& checkpoint, ModelConfig config, const ModelOptions& options);
  Result<void> load_weights(const Tensors& tensors);
  Result<void> load_layer(const Tensors& tensors, int index);
  Result<void> allocate_workspaces();
  void begin(const Batch& batch);
  void attention_block(const Layer& layer, const Batch& batch, KvPool& kv, int index);
  void mlp_block(const Layer& layer, int index);
  void run_stack(const std::vector<ops::Linear>& stack, const uint16_t* x, int rows, float* y, int64_t width);
  template <class T>
  void trace_rows(int layer, std::string_view op, const T* data, int64_t width);

  const weights::Checkpoint& checkpoint_;  // the embedding table is read where it lies
  ModelConfig config_;
  ModelOptions options_;
  const kernels::KernelSet& set_;
  ThreadPool pool_;
  kernels::AttentionShape attention_shape_;
  kernels::QkvShape qkv_shape_;
  Rope rope_;
  int hidden_padded_, heads_width_, heads_padded_, intermediate_padded_, qkv_width_;

  const TensorView* embedding_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<float> final_norm_;
  std::optional<ops::Linear> head_;
  std::optional<ops::Attention> attention_;

  // Workspaces for max_rows rows; [rows] of each.
  Buffer h_;              // float32 [hidden], the residual stream
  Buffer x_;              // operands [hidden_padded]
  Buffer qkv_;            // float32 [qkv_width]
  Buffer q_;              // operands [heads][head_padded]
  Buffer mixed_;          // operands [heads_padded], attention's result
  Buffer gate_up_;        // float32 [2 * intermediate]
  Buffer a_;              // operands [intermediate_padded]
  Buffer outputs_;        // operands [hidden_padded], the last forward's outputs
  Buffer cosine_, sine_;  // float32 [rope pairs]
  std::unique_ptr<bool[]> bad_;
  int rows_ = 0;
  std::vector<int32_t> tokens_, sequences_;
  std::vector<int64_t> positions_;
  std::vector<plan::RowRun> runs_;
  std::vector<kernels::KvView> views_;
  // Of the forward under way.
  const Batch* batch_ = nullptr;
  TraceSink* trace_ = nullptr;
};

}  // namespace eadem::model
