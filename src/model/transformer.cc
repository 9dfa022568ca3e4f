#include "model/transformer.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "core/fp_env.h"
#include "numerics/attention.h"
#include "numerics/double_math.h"

namespace eadem::model {
namespace {

std::atomic<uint64_t> models{0};  // that were made

constexpr int kLogitRows = 256;  // rows whose logits are in a device's memory at once
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
      pool_(options.threads),
      backend_(*options.kernels, pool_, options.device.get()),
      attention_shape_(attention_shape_of(config_, options.numerics)),
      qkv_shape_(qkv_shape_of(config_)),
      rope_(config_.rope),
      hidden_padded_(numerics::padded_to_leaf(config_.hidden)),
      heads_width_(config_.heads * config_.head_size),
      heads_padded_(numerics::padded_to_leaf(heads_width_)),
      intermediate_padded_(numerics::padded_to_leaf(config_.intermediate)),
      qkv_width_((config_.heads + 2 * config_.kv_heads) * config_.head_size),
      id_(++models) {}

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
  if (options.device != nullptr) options.device->wait();  // a kernel may read weights before its turn in the queue
  return std::unique_ptr<Model>(std::move(model));
}

Result<void> Transformer::load_weights(const Tensors& tensors) {
  EADEM_ASSIGN_OR_RETURN(const TensorView* table, tensors.embedding());
  for (int layer = 0; layer < config_.layers; ++layer) EADEM_RETURN_IF_ERROR(load_layer(tensors, layer));
  EADEM_RETURN_IF_ERROR(load_vector(tensors, "final_norm", -1, config_.hidden, final_norm_));
  ops::WeightPart head;
  head.weight = table;
  if (!config_.tied_head) {
    EADEM_ASSIGN_OR_RETURN(head, tensors.linear("head", -1, config_.vocab, config_.hidden, false));
  }
  EADEM_ASSIGN_OR_RETURN(head_, ops::Linear::pack(backend_.layout(), options_.numerics, false, head, pool_));
  EADEM_RETURN_IF_ERROR(backend_.place(*head_));
  EADEM_ASSIGN_OR_RETURN(embedding_, ops::Embedding::create(backend_, *table, config_.tied_head ? &*head_ : nullptr));
  checkpoint_.release(*head.weight);
  checkpoint_.release(*table);
  return {};
}

Result<void> Transformer::load_vector(const Tensors& tensors, std::string_view role, int index, int64_t n,
                                      Buffer& vector) {
  EADEM_ASSIGN_OR_RETURN(const std::vector<float> values, tensors.vector(role, index, n));
  EADEM_ASSIGN_OR_RETURN(vector, backend_.place(std::as_bytes(std::span(values)), "the weights"));
  return {};
}

Result<void> Transformer::load_layer(const Tensors& tensors, int index) {
  Layer layer;
  EADEM_RETURN_IF_ERROR(load_vector(tensors, "attention_norm", index, config_.hidden, layer.attention_norm));
  EADEM_RETURN_IF_ERROR(load_vector(tensors, "mlp_norm", index, config_.hidden, layer.mlp_norm));
  if (config_.qk_norm) {
    EADEM_RETURN_IF_ERROR(load_vector(tensors, "q_norm", index, config_.head_size, layer.q_norm));
    EADEM_RETURN_IF_ERROR(load_vector(tensors, "k_norm", index, config_.head_size, layer.k_norm));
  }
  EADEM_RETURN_IF_ERROR(load_linears(tensors, index, layer));
  EADEM_RETURN_IF_ERROR(place(layer));
  layers_.push_back(std::move(layer));
  return {};
}

Result<void> Transformer::load_linears(const Tensors& tensors, int index, Layer& layer) {
  const int64_t hidden = config_.hidden, size = config_.head_size;
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
  const kernels::KernelSet& set = backend_.layout();
  EADEM_ASSIGN_OR_RETURN(layer.qkv, ops::Linear::pack_stack(set, options_.numerics, qkv, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.o, ops::Linear::pack(set, options_.numerics, true, o, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.gate_up, ops::Linear::pack_stack(set, options_.numerics, gate_up, pool_));
  EADEM_ASSIGN_OR_RETURN(layer.down, ops::Linear::pack(set, options_.numerics, true, down, pool_));
  for (const auto* part : {&q, &k, &v, &o, &gate, &up, &down}) checkpoint_.release(*part->weight);
  return {};
}

Result<void> Transformer::place(Layer& layer) {
  for (ops::Linear& linear : layer.qkv) EADEM_RETURN_IF_ERROR(backend_.place(linear));
  for (ops::Linear& linear : layer.gate_up) EADEM_RETURN_IF_ERROR(backend_.place(linear));
  EADEM_RETURN_IF_ERROR(backend_.place(*layer.o));
  return backend_.place(*layer.down);
}

Result<void> Transformer::allocate_workspaces() {
  const auto rows = static_cast<size_t>(options_.max_rows);
  const auto allocate = [&](Buffer& buffer, size_t width, size_t element) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(buffer, backend_.allocate(rows * width * element, "a step's working memory"));
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
  EADEM_RETURN_IF_ERROR(backend_.prepare_attention(attention_shape_));
  EADEM_ASSIGN_OR_RETURN(inputs_, StepInputs::create(backend_, options_.max_rows, rope_, config_.context));
  drawn_offset_ = (rows + 63) / 64 * 64;
  size_t results = drawn_offset_;
  if (draws()) {
    results += rows * sizeof(kernels::DeviceDrawn);
    logit_rows_ = std::min(options_.max_rows, kLogitRows);
    EADEM_RETURN_IF_ERROR(backend_.device()->reserve(needs()));
    EADEM_ASSIGN_OR_RETURN(logits_, backend_.allocate(static_cast<size_t>(logit_rows_) *
                                                          static_cast<size_t>(config_.vocab) * sizeof(float),
                                                      "the logits"));
    for (Fetched& fetched : fetched_) {
      EADEM_ASSIGN_OR_RETURN(fetched.here, backend_.device()->allocate_here(results, "a step's results"));
    }
  }
  EADEM_ASSIGN_OR_RETURN(results_, backend_.allocate(results, "a step's results"));
  return {};
}

kernels::DeviceNeeds Transformer::needs() const {
  kernels::DeviceNeeds needs;
  needs.linears.push_back(head_->shape());
  for (const Layer& layer : layers_) {
    for (const ops::Linear& linear : layer.qkv) needs.linears.push_back(linear.shape());
    for (const ops::Linear& linear : layer.gate_up) needs.linears.push_back(linear.shape());
    needs.linears.push_back(layer.o->shape());
    needs.linears.push_back(layer.down->shape());
  }
  needs.attention = attention_shape_;
  needs.max_rows = options_.max_rows;
  needs.max_positions = config_.context;
  needs.max_draws = logit_rows_;
  needs.vocab = static_cast<int>(config_.vocab);
  return needs;
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
  std::vector<T> copy;
  if (backend_.device() != nullptr) {
    copy.resize(static_cast<size_t>(rows_ * width));
    backend_.read(copy.data(), data, copy.size() * sizeof(T));
    data = copy.data();
  }
  for (int row = 0; row < rows_; ++row) {
    trace_->record(*batch_, row, layer, op,
                   std::as_bytes(std::span<const T>(data + row * width, static_cast<size_t>(width))));
  }
}

// The rows of the recording that a batch fits in; its own where it takes none.
int Transformer::rows_to_fill(const Batch& batch) const {
  const size_t rows = batch.rows.size();
  const bool each_drawn = rows == batch.outputs.size() && rows == batch.draws.size() && rows == batch.tables.size();
  if (!draws() || !options_.graphs || trace_ != nullptr || !each_drawn) return 0;
  const size_t unit = rows <= 8 ? std::bit_ceil(rows) : rows <= 64 ? 8 : 32;
  const size_t padded = (rows + unit - 1) / unit * unit;
  return static_cast<int>(std::min(padded, std::max(rows, static_cast<size_t>(options_.max_rows))));
}

void Transformer::begin(const Batch& batch, int padded) {
  rows_ = static_cast<int>(batch.rows.size());
  EADEM_CHECK(rows_ >= 1 && rows_ <= options_.max_rows);
  EADEM_CHECK(batch.draws.empty() || (draws() && batch.draws.size() == batch.outputs.size()));
  for (const Row& row : batch.rows) {
    const bool known = row.token >= 0 && row.token < config_.vocab;
    EADEM_CHECK(row.position >= 0 && (row.drawn_by >= 0 ? row.drawn_by < static_cast<int>(draw_count_) : known));
  }
  draw_count_ = batch.draws.size();
  padded = std::max(padded, rows_);
  output_count_ = static_cast<int>(batch.outputs.size()) + padded - rows_;
  inputs_->fill(batch, padded);
  step_ = inputs_->rows();
  step_.bad = results_.as<bool>();
  step_.drawn = drawn_there();
  views_.resize(batch.tables.size());
  hidden_here_.clear();
  first_logits_ = end_logits_ = 0;
}

void Transformer::attention_block(const Layer& layer, KvPool& kv, int index) {
  if (backend_.device() != nullptr) {
    step_.kv = kv.device_view(index, inputs_->tables(), inputs_->table_stride());
  } else {
    for (size_t i = 0; i < views_.size(); ++i) views_[i] = kv.view(index, batch_->tables[i]);
    step_.views = views_.data();
  }
  backend_.rms_norm(step_, h_.as<float>(), layer.attention_norm.as<float>(), config_.hidden, hidden_padded_,
                    config_.norm_eps, x_.as<uint16_t>());
  trace_rows(index, "attention_norm", x_.as<uint16_t>(), hidden_padded_);
  backend_.linears(layer.qkv, x_.as<uint16_t>(), step_.rows, qkv_.as<float>(), qkv_width_);
  trace_rows(index, "qkv", qkv_.as<float>(), qkv_width_);

  kernels::QkvShape shape = qkv_shape_;
  shape.q_norm = layer.q_norm.as<float>();
  shape.k_norm = layer.k_norm.as<float>();
  backend_.split_qkv(step_, shape, attention_shape_, qkv_.as<float>(), q_.as<uint16_t>());
  trace_rows(index, "q", q_.as<uint16_t>(), int64_t{config_.heads} * attention_shape_.head_padded);
  backend_.attention(step_, attention_shape_, q_.as<uint16_t>(), mixed_.as<uint16_t>(), heads_padded_);
  trace_rows(index, "attention", mixed_.as<uint16_t>(), heads_padded_);
  backend_.linear(*layer.o, mixed_.as<uint16_t>(), step_.rows, h_.as<float>(), config_.hidden, true);
  trace_rows(index, "attention_residual", h_.as<float>(), config_.hidden);
}

void Transformer::mlp_block(const Layer& layer, int index) {
  backend_.rms_norm(step_, h_.as<float>(), layer.mlp_norm.as<float>(), config_.hidden, hidden_padded_, config_.norm_eps,
                    x_.as<uint16_t>());
  trace_rows(index, "mlp_norm", x_.as<uint16_t>(), hidden_padded_);
  backend_.gated(step_, layer.gate_up, x_.as<uint16_t>(), gate_up_.as<float>(), config_.intermediate,
                 intermediate_padded_, a_.as<uint16_t>());
  trace_rows(index, "swiglu", a_.as<uint16_t>(), intermediate_padded_);
  backend_.linear(*layer.down, a_.as<uint16_t>(), step_.rows, h_.as<float>(), config_.hidden, true);
  trace_rows(index, "mlp_residual", h_.as<float>(), config_.hidden);
}

void Transformer::forward(const Batch& batch, KvPool& kv, TraceSink* trace) {
  const FpEnvironment environment;
  batch_ = &batch;
  trace_ = trace;
  EADEM_CHECK(!draws() || launched_ - finished_ < fetched_.size());
  const int padded = rows_to_fill(batch);
  begin(batch, padded);
  if (padded > 0) {
    backend_.device()->replay(replay_key(kv), [&] { run_step(kv); });
  } else {
    run_step(kv);
  }
  if (draws()) fetch_results();
  if (draw_count_ == 0) return;
  first_logits_ = (output_count_ - 1) / logit_rows_ * logit_rows_;
  end_logits_ = output_count_;
}

kernels::ReplayKey Transformer::replay_key(const KvPool& kv) const {
  const auto pool = reinterpret_cast<uintptr_t>(kv.device_view(0, nullptr, 0).base);
  return {id_, pool, static_cast<uint64_t>(step_.rows), static_cast<uint64_t>(inputs_->table_stride())};
}

void Transformer::run_step(KvPool& kv) {
  backend_.clear(step_.bad, static_cast<size_t>(step_.rows));
  embedding_->run(pool_, step_, h_.as<float>());
  trace_rows(-1, "embedding", h_.as<float>(), config_.hidden);
  for (int index = 0; index < config_.layers; ++index) {
    attention_block(layers_[index], kv, index);
    mlp_block(layers_[index], index);
  }
  backend_.rms_norm(step_, h_.as<float>(), final_norm_.as<float>(), config_.hidden, hidden_padded_, config_.norm_eps,
                    x_.as<uint16_t>());
  trace_rows(-1, "final_norm", x_.as<uint16_t>(), hidden_padded_);
  backend_.gather(x_.as<uint16_t>(), inputs_->outputs(), output_count_, hidden_padded_, outputs_.as<uint16_t>());
  if (draw_count_ > 0) draw_outputs();
}

void Transformer::run_head(int begin, int end, float* out) {
  backend_.linear(*head_, outputs_.as<uint16_t>() + int64_t{begin} * hidden_padded_, end - begin, out, config_.vocab,
                  false);
}

// The last outputs' logits stay, for those whose draw needs more than them.
void Transformer::draw_outputs() {
  kernels::DeviceDrawn* const drawn = drawn_there();
  for (int begin = 0; begin < output_count_; begin += logit_rows_) {
    const int end = std::min(output_count_, begin + logit_rows_);
    run_head(begin, end, logits_.as<float>());
    backend_.device()->draw(logits_.as<float>(), end - begin, static_cast<int>(config_.vocab), inputs_->draws() + begin,
                            drawn + begin);
  }
}

kernels::DeviceDrawn* Transformer::drawn_there() {
  return draws() ? reinterpret_cast<kernels::DeviceDrawn*>(results_.data() + drawn_offset_) : nullptr;
}

void Transformer::fetch_results() {
  Fetched& fetched = fetched_[++launched_ % fetched_.size()];
  fetched.rows = rows_;
  fetched.draws = draw_count_;
  const size_t drawn = draw_count_ * sizeof(kernels::DeviceDrawn);
  const size_t bytes = drawn > 0 ? drawn_offset_ + drawn : static_cast<size_t>(rows_);
  fetched.number = backend_.device()->fetch(fetched.here.data(), results_.data(), bytes);
}

void Transformer::finish() {
  if (!draws()) return;
  EADEM_CHECK(finished_ < launched_);
  backend_.device()->landed(fetched_[(finished_ + 1) % fetched_.size()].number);
  ++finished_;
}

std::span<const bool> Transformer::bad() const {
  if (!draws()) return {results_.as<bool>(), static_cast<size_t>(rows_)};
  const Fetched& fetched = fetched_[finished_ % fetched_.size()];
  return {fetched.here.as<bool>(), static_cast<size_t>(fetched.rows)};
}

std::span<const kernels::DeviceDrawn> Transformer::drawn() const {
  const Fetched& fetched = fetched_[finished_ % fetched_.size()];
  if (fetched.draws == 0) return {};
  return {reinterpret_cast<const kernels::DeviceDrawn*>(fetched.here.data() + drawn_offset_), fetched.draws};
}

const uint16_t* Transformer::hidden(int row) const {
  const uint16_t* rows = x_.as<uint16_t>();
  if (backend_.device() != nullptr) {
    if (hidden_here_.empty()) {
      hidden_here_.resize(static_cast<size_t>(rows_) * hidden_padded_);
      backend_.read(hidden_here_.data(), rows, hidden_here_.size() * sizeof(uint16_t));
    }
    rows = hidden_here_.data();
  }
  return rows + int64_t{row} * hidden_padded_;
}

void Transformer::logits(int begin, int end, float* out) {
  EADEM_CHECK(begin >= 0 && begin < end);
  if (backend_.device() == nullptr) return run_head(begin, end, out);
  const int64_t vocab = config_.vocab;
  for (int first = begin, last; first < end; first = last) {
    if (first < first_logits_ || first >= end_logits_) {
      first_logits_ = first, end_logits_ = std::min(end, first + logit_rows_);
      run_head(first_logits_, end_logits_, logits_.as<float>());
    }
    last = std::min(end, end_logits_);
    backend_.read(out + (first - begin) * vocab, logits_.as<float>() + (first - first_logits_) * vocab,
                  static_cast<size_t>((last - first) * vocab) * sizeof(float));
  }
}

}  // namespace eadem::model
