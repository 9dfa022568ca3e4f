#include "model/transformer.h"

#include <algorithm>
#include <cstring>

#include "core/fp_env.h"
#include "numerics/attention.h"
#include "numerics/double_math.h"
#include "ops/rows.h"

namespace eadem::model {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0;

kernels::AttentionShape attention_shape_of(const ModelConfig& config, numerics::Numerics numerics) {
  kernels::AttentionShape shape;
  shape.numerics = numerics::attention_tree(numerics);
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_size = config.head_size;
  shape.head_padded = numerics::padded_to_leaf(config.head_size);
  shape.c = static_cast<float>(kLog2E * (1.0 / numerics::sqrt_f64(static_cast<double>(config.head_size))));
  shape.window = config.window;
  return shape;
}

kernels::QkvShape qkv_shape_of(const ModelConfig& config) {
  kernels::QkvShape shape;
  shape.heads = config.heads;
  shape.kv_heads = config.kv_heads;
  shape.head_size = config.head_size;
  shape.head_padded = numerics::padded_to_leaf(config.head_size);
  shape.rotary = config.rope.rotary;
  shape.eps = config.norm_eps;
  return shape;
}

}  // namespace

Transformer::Transformer(const weights::Checkpoint& checkpoint, ModelConfig config, const ModelOptions& options)
    : checkpoint_(checkpoint),
      config_(std::move(config)),
      options_(options),
      set_(*options.kernels),
      pool_(options.threads),
      attention_shape_(attention_shape_of(config_, options.numerics)),
      qkv_shape_(qkv_shape_of(config_)),
      rope_(config_.rope),
      hidden_padded_(numerics::padded_to_leaf(config_.hidden)),
      heads_width_(config_.heads * config_.head_size),
      heads_padded_(numerics::padded_to_leaf(heads_width_)),
      intermediate_padded_(numerics::padded_to_leaf(config_.intermediate)),
      qkv_width_((config_.heads + 2 * config_.kv_heads) * config_.head_size) {}

Result<std::unique_ptr<Model>> Transformer::load(const weights::Checkpoint& checkpoint, const Family& family,
                                                 ModelConfig config, const ModelOptions& options) {
  const Tensors tensors(checkpoint, family, config);
  EADEM_ASSIGN_OR_RETURN(config.rope.frequency_factors, tensors.rope_factors());
  // GGUF says nothing of ties: a head that is there counts.
  if (checkpoint.format() == weights::Checkpoint::Format::gguf) config.tied_head = !tensors.has_head();
  std::unique_ptr<Transformer> model(new Transformer(checkpoint, config, options));
  if (!model->pool_.complete()) {
    return Error{"the system does not start " + std::to_string(options.threads) + " threads: lower --threads"};
  }
  EADEM_RETURN_IF_ERROR(model->load_weights(tensors));
  EADEM_RETURN_IF_ERROR(model->allocate_workspaces());
  return std::unique_ptr<Model>(std::move(model));
}

Result<void> Transformer::load_weights(const Tensors& tensors) {
  EADEM_ASSIGN_OR_RETURN(embedding_, tensors.embedding());
  for (int layer = 0; layer < config_.layers; ++layer) EADEM_RETURN_IF_ERROR(load_layer(tensors, layer));
  EADEM_ASSIGN_OR_RETURN(final_norm_, tensors.vector("final_norm", -1, config_.hidden));
  ops::WeightPart head;
  head.weight = embedding_;
  if (!config_.tied_head) {
    EADEM_ASSIGN_OR_RETURN(head, tensors.linear("head", -1, config_.vocab, config_.hidden, false));
  }
  EADEM_ASSIGN_OR_RETURN(head_, ops::Linear::pack(set_, options_.numerics, false, head, pool_));
  checkpoint_.release(*head.weight);
  return {};
}

Result<void> Transformer::load_layer(const Tensors& tensors, int index) {
  Layer layer;
  const int64_t hidden = config_.hidden, size = config_.head_size;
  EADEM_ASSIGN_OR_RETURN(layer.attention_norm, tensors.vector("attention_norm", index, hidden));
  EADEM_ASSIGN_OR_RETURN(layer.mlp_norm, tensors.vector("mlp_norm", index, hidden));
  if (config_.qk_norm) {
    EADEM_ASSIGN_OR_RETURN(layer.q_norm, tensors.vector("q_norm", index, size));
    EADEM_ASSIGN_OR_RETURN(layer.k_norm, tensors.vector("k_norm", index, size));
  }
  EADEM_ASSIGN_OR_RETURN(const auto q, tensors.linear("q", index, config_.heads * size, hidden, config_.qkv_bias));
  EADEM_ASSIGN_OR_RETURN(const auto k, tensors.linear("k", index, config_.kv_heads * size, hidden, config_.qkv_bias));
  EADEM_ASSIGN_OR_RETURN(const auto v, tensors.linear("v", index, config_.kv_heads * size, hidden, config_.qkv_bias));
  EADEM_ASSIGN_OR_RETURN(const auto o, tensors.linear("o", index, hidden, heads_width_, config_.output_bias));
  EADEM_ASSIGN_OR_RETURN(const auto gate,
                         tensors.linear("gate", index, config_.intermediate, hidden, config_.mlp_bias));
  EADEM_ASSIGN_OR_RETURN(const auto up, tensors.linear("up", index, config_.intermediate, hidden, config_.mlp_bias));
  EADEM_ASSIGN_OR_RETURN(const auto down,
                         tensors.linear("down", index, hidden, config_.intermediate, config_.mlp_bias));
  const ops::WeightPart qkv[] = {q, k, v}, gate_up[] = {gate, up};
  EADEM_ASSIGN_OR_RETURN(layer.qkv, ops::Linear::pack_stack(set_, options_.numerics, qkv, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.o, ops::Linear::pack(set_, options_.numerics, true, o, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.gate_up, ops::Linear::pack_stack(set_, options_.numerics, gate_up, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.down, ops::Linear::pack(set_, options_.numerics, true, down, pool_));
  for (const auto* part : {&q, &k, &v, &o, &gate, &up, &down}) checkpoint_.release(*part->weight);
  layers_.push_back(std::move(layer));
  return {};
}

Result<void> Transformer::allocate_workspaces() {
  const auto rows = static_cast<size_t>(options_.max_rows);
  const auto allocate = [&](Buffer& buffer, size_t width, size_t element) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(buffer, Buffer::allocate(rows * width * element, "a step's working memory"));
    return {};
  };
  EADEM_RETURN_IF_ERROR(allocate(h_, config_.hidden, sizeof(float)));
  EADEM_RETURN_IF_ERROR(allocate(x_, hidden_padded_, sizeof(uint16_t)));
  EADEM_RETURN_IF_ERROR(allocate(qkv_, qkv_width_, sizeof(float)));
  EADEM_RETURN_IF_ERROR(
      allocate(q_, static_cast<size_t>(config_.heads) * attention_shape_.head_padded, sizeof(uint16_t)));
  EADEM_RETURN_IF_ERROR(allocate(mixed_, heads_padded_, sizeof(uint16_t)));
  EADEM_RETURN_IF_ERROR(allocate(gate_up_, 2 * static_cast<size_t>(config_.intermediate), sizeof(float)));
  EADEM_RETURN_IF_ERROR(allocate(a_, intermediate_padded_, sizeof(uint16_t)));
  EADEM_RETURN_IF_ERROR(allocate(outputs_, hidden_padded_, sizeof(uint16_t)));
  EADEM_RETURN_IF_ERROR(allocate(cosine_, rope_.pairs(), sizeof(float)));
  EADEM_RETURN_IF_ERROR(allocate(sine_, rope_.pairs(), sizeof(float)));
  EADEM_ASSIGN_OR_RETURN(attention_, ops::Attention::create(set_, attention_shape_, options_.threads));
  bad_ = std::make_unique<bool[]>(rows);
  tokens_.resize(rows), sequences_.resize(rows), positions_.resize(rows);
  return {};
}

size_t Transformer::weight_bytes() const {
  size_t bytes = head_->bytes();
  for (const Layer& layer : layers_) {
    for (const auto& linear : layer.qkv) bytes += linear.bytes();
    for (const auto& linear : layer.gate_up) bytes += linear.bytes();
    bytes += layer.o->bytes() + layer.down->bytes();
  }
  return bytes;
}

template <class T>
void Transformer::trace_rows(int layer, std::string_view op, const T* data, int64_t width) {
  if (trace_ == nullptr) return;
  for (int row = 0; row < rows_; ++row) {
    trace_->record(*batch_, row, layer, op,
                   std::as_bytes(std::span<const T>(data + row * width, static_cast<size_t>(width))));
  }
}

// Rows of the batch as flat arrays, and the run of rows of each sequence.
void Transformer::begin(const Batch& batch) {
  rows_ = static_cast<int>(batch.rows.size());
  EADEM_CHECK(rows_ >= 1 && rows_ <= options_.max_rows);
  std::fill_n(bad_.get(), rows_, false);
  runs_.clear();
  for (int row = 0; row < rows_; ++row) {
    const Row& r = batch.rows[row];
    EADEM_CHECK(r.token >= 0 && r.token < config_.vocab && r.position >= 0);
    tokens_[row] = r.token, sequences_[row] = r.sequence, positions_[row] = r.position;
    rope_.angles(r.position, cosine_.as<float>() + row * rope_.pairs(), sine_.as<float>() + row * rope_.pairs());
    if (runs_.empty() || runs_.back().sequence != r.sequence) {
      runs_.push_back({r.sequence, row, row, r.position, r.position});
    } else {
      EADEM_CHECK(r.position == runs_.back().last_position + 1);
    }
    runs_.back().row_end = row + 1;
    runs_.back().last_position = r.position;
  }
  views_.resize(batch.tables.size());
  ops::embed(pool_, *embedding_, tokens_.data(), rows_, h_.as<float>());
}

void Transformer::run_stack(const std::vector<ops::Linear>& stack, const uint16_t* x, int rows, float* y,
                            int64_t width) {
  int64_t column = 0;
  for (const ops::Linear& linear : stack) {
    linear.run(pool_, x, rows, y + column, width, false);
    column += linear.shape().n;
  }
}

void Transformer::attention_block(const Layer& layer, const Batch& batch, KvPool& kv, int index) {
  for (size_t i = 0; i < batch.tables.size(); ++i) views_[i] = kv.view(index, batch.tables[i]);
  ops::rms_norm(pool_, set_, h_.as<float>(), layer.attention_norm.data(), rows_, config_.hidden, hidden_padded_,
                config_.norm_eps, x_.as<uint16_t>(), bad_.get());
  trace_rows(index, "attention_norm", x_.as<uint16_t>(), hidden_padded_);
  run_stack(layer.qkv, x_.as<uint16_t>(), rows_, qkv_.as<float>(), qkv_width_);
  trace_rows(index, "qkv", qkv_.as<float>(), qkv_width_);

  kernels::QkvShape shape = qkv_shape_;
  shape.q_norm = layer.q_norm.empty() ? nullptr : layer.q_norm.data();
  shape.k_norm = layer.k_norm.empty() ? nullptr : layer.k_norm.data();
  ops::QkvCall split;
  split.qkv = qkv_.as<float>();
  split.cosine = cosine_.as<float>(), split.sine = sine_.as<float>();
  split.positions = positions_.data(), split.sequences = sequences_.data();
  split.views = views_.data();
  split.q = q_.as<uint16_t>();
  split.bad = bad_.get();
  ops::split_qkv(pool_, set_, shape, attention_shape_, split, rows_);
  trace_rows(index, "q", q_.as<uint16_t>(), int64_t{config_.heads} * attention_shape_.head_padded);

  ops::AttentionCall call;
  call.q = q_.as<uint16_t>();
  call.positions = positions_.data();
  call.runs = runs_;
  call.views = views_.data();
  call.out = mixed_.as<uint16_t>();
  call.out_stride = heads_padded_;
  call.bad = bad_.get();
  attention_->run(pool_, call);
  trace_rows(index, "attention", mixed_.as<uint16_t>(), heads_padded_);
  layer.o->run(pool_, mixed_.as<uint16_t>(), rows_, h_.as<float>(), config_.hidden, true);
  trace_rows(index, "attention_residual", h_.as<float>(), config_.hidden);
}

void Transformer::mlp_block(const Layer& layer, int index) {
  ops::rms_norm(pool_, set_, h_.as<float>(), layer.mlp_norm.data(), rows_, config_.hidden, hidden_padded_,
                config_.norm_eps, x_.as<uint16_t>(), bad_.get());
  trace_rows(index, "mlp_norm", x_.as<uint16_t>(), hidden_padded_);
  run_stack(layer.gate_up, x_.as<uint16_t>(), rows_, gate_up_.as<float>(), 2 * config_.intermediate);
  ops::swiglu(pool_, set_, gate_up_.as<float>(), rows_, config_.intermediate, intermediate_padded_, a_.as<uint16_t>(),
              bad_.get());
  trace_rows(index, "swiglu", a_.as<uint16_t>(), intermediate_padded_);
  layer.down->run(pool_, a_.as<uint16_t>(), rows_, h_.as<float>(), config_.hidden, true);
  trace_rows(index, "mlp_residual", h_.as<float>(), config_.hidden);
}

void Transformer::forward(const Batch& batch, KvPool& kv, TraceSink* trace) {
  const FpEnvironment environment;
  batch_ = &batch;
  trace_ = trace;
  begin(batch);
  trace_rows(-1, "embedding", h_.as<float>(), config_.hidden);
  for (int index = 0; index < config_.layers; ++index) {
    attention_block(layers_[index], batch, kv, index);
    mlp_block(layers_[index], index);
  }
  ops::rms_norm(pool_, set_, h_.as<float>(), final_norm_.data(), rows_, config_.hidden, hidden_padded_,
                config_.norm_eps, x_.as<uint16_t>(), bad_.get());
  trace_rows(-1, "final_norm", x_.as<uint16_t>(), hidden_padded_);
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    std::memcpy(outputs_.as<uint16_t>() + i * hidden_padded_,
                x_.as<uint16_t>() + int64_t{batch.outputs[i]} * hidden_padded_, hidden_padded_ * sizeof(uint16_t));
  }
}

void Transformer::logits(int begin, int end, float* out) {
  EADEM_CHECK(begin >= 0 && begin < end);
  head_->run(pool_, outputs_.as<uint16_t>() + int64_t{begin} * hidden_padded_, end - begin, out, config_.vocab, false);
}

}  // namespace eadem::model
