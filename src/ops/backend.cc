#include "ops/backend.h"

#include <algorithm>
#include <cstring>

#include "numerics/formats.h"
#include "numerics/operand.h"
#include "ops/rows.h"

namespace eadem::ops {
namespace {

// Rows of an embedding table that are decoded before they are sent to a device.
constexpr int64_t kTableRows = 4096;

}  // namespace

Result<Buffer> Backend::allocate(size_t bytes, std::string_view what) const {
  return device_ != nullptr ? device_->allocate(bytes, what) : Buffer::allocate(bytes, what);
}

Result<Buffer> Backend::place(std::span<const std::byte> bytes, std::string_view what) const {
  EADEM_ASSIGN_OR_RETURN(Buffer buffer, allocate(bytes.size(), what));
  if (bytes.empty()) return buffer;
  if (device_ != nullptr) {
    device_->upload(buffer.data(), bytes.data(), bytes.size());
  } else {
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
  }
  return buffer;
}

Result<void> Backend::place(Linear& linear) const {
  if (device_ == nullptr) return {};
  return linear.move_to(*device_);
}

void Backend::clear(void* to, size_t bytes) const {
  if (device_ != nullptr) return device_->clear(to, bytes);
  std::memset(to, 0, bytes);
}

void Backend::read(void* to, const void* from, size_t bytes) const {
  if (device_ != nullptr) {
    device_->download(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

Result<void> Backend::prepare_attention(const kernels::AttentionShape& shape) {
  if (device_ != nullptr) return {};
  EADEM_ASSIGN_OR_RETURN(attention_, Attention::create(*set_, shape, pool_->threads()));
  const int64_t elements = pool_->threads() * kv_memory_of(shape);
  EADEM_ASSIGN_OR_RETURN(
      kv_memory_, Buffer::allocate(static_cast<size_t>(elements) * sizeof(uint16_t), "the keys and values of a row"));
  return {};
}

void Backend::rms_norm(const StepRows& step, const float* x, const float* weight, int n, int n_padded, float eps,
                       uint16_t* y) const {
  if (device_ != nullptr) return device_->rms_norm(x, weight, step.rows, n, n_padded, eps, y, step.bad);
  ops::rms_norm(*pool_, *set_, x, weight, step.rows, n, n_padded, eps, y, step.bad);
}

void Backend::linear(const Linear& linear, const uint16_t* x, int rows, float* y, int64_t y_stride,
                     bool add_to_y) const {
  if (device_ != nullptr) return device_->linear(linear.call(x, y, y_stride, add_to_y), rows);
  linear.run(*pool_, x, rows, y, y_stride, add_to_y);
}

void Backend::split_qkv(const StepRows& step, const kernels::QkvShape& shape, const kernels::AttentionShape& attention,
                        float* qkv, uint16_t* q) {
  if (device_ != nullptr) {
    kernels::DeviceQkvCall call;
    call.qkv = qkv;
    call.cosine = step.cosine, call.sine = step.sine;
    call.positions = step.positions, call.sequences = step.sequences;
    call.kv = step.kv;
    call.q = q;
    call.bad = step.bad;
    return device_->split_qkv(shape, attention, call, step.rows);
  }
  QkvCall call;
  call.qkv = qkv;
  call.cosine = step.cosine, call.sine = step.sine;
  call.positions = step.positions, call.sequences = step.sequences;
  call.views = step.views;
  call.q = q;
  call.kv_memory = kv_memory_.as<uint16_t>();
  call.bad = step.bad;
  ops::split_qkv(*pool_, *set_, shape, attention, call, step.rows);
}

void Backend::attention(const StepRows& step, const kernels::AttentionShape& shape, const uint16_t* q, uint16_t* out,
                        int64_t out_stride) {
  if (device_ != nullptr) {
    kernels::DeviceAttentionCall call;
    call.q = q;
    call.positions = step.positions, call.sequences = step.sequences;
    call.rows = step.rows;
    call.runs = step.runs.data();
    call.run_count = static_cast<int>(step.runs.size());
    call.kv = step.kv;
    call.out = out, call.out_stride = out_stride;
    call.bad = step.bad;
    return device_->attention(shape, call);
  }
  AttentionCall call;
  call.q = q;
  call.positions = step.positions;
  call.runs = step.runs;
  call.views = step.views;
  call.out = out, call.out_stride = out_stride;
  call.bad = step.bad;
  attention_->run(*pool_, call);
}

void Backend::linears(const std::vector<Linear>& stack, const uint16_t* x, int rows, float* y, int64_t width) const {
  int64_t column = 0;
  for (const Linear& layer : stack) {
    linear(layer, x, rows, y + column, width, false);
    column += layer.shape().n;
  }
}

void Backend::gated(const StepRows& step, const std::vector<Linear>& stack, const uint16_t* x, float* gate_up, int n,
                    int n_padded, uint16_t* y) const {
  const kernels::SwigluCall swiglu{y, n_padded, step.bad};
  if (device_ == nullptr && stack.size() == 1 && stack[0].fuses_swiglu(step.rows, pool_->threads())) {
    return stack[0].run_swiglu(*pool_, x, step.rows, swiglu);
  }
  if (device_ != nullptr && stack.size() == 1 && stack[0].fuses_swiglu(*device_, step.rows)) {
    return device_->linear_swiglu(stack[0].call(x, nullptr, 0, false), swiglu, step.rows);
  }
  linears(stack, x, step.rows, gate_up, 2 * int64_t{n});
  if (device_ != nullptr) return device_->swiglu(gate_up, step.rows, n, n_padded, y, step.bad);
  ops::swiglu(*pool_, *set_, gate_up, step.rows, n, n_padded, y, step.bad);
}

void Backend::gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) const {
  if (device_ != nullptr) return device_->gather(from, indices, count, width, to);
  for (int i = 0; i < count; ++i) {
    std::memcpy(to + int64_t{i} * width, from + int64_t{indices[i]} * width,
                static_cast<size_t>(width) * sizeof(uint16_t));
  }
}

Result<Embedding> Embedding::create(const Backend& backend, const TensorView& table, const Linear* tied_head) {
  Embedding embedding;
  embedding.table_ = &table;
  embedding.device_ = backend.device();
  if (embedding.device_ != nullptr) {
    EADEM_RETURN_IF_ERROR(embedding.place_table(backend));
  } else if (tied_head != nullptr && tied_head->tells_rows()) {
    embedding.head_ = tied_head;
    const size_t elements = static_cast<size_t>(backend.threads()) * static_cast<size_t>(tied_head->shape().k_padded);
    EADEM_ASSIGN_OR_RETURN(embedding.operands_, Buffer::allocate(elements * sizeof(uint16_t), "embedded rows"));
  }
  return embedding;
}

Result<void> Embedding::place_table(const Backend& backend) {
  const TensorView& table = *table_;
  const int64_t n = table.columns();
  EADEM_ASSIGN_OR_RETURN(operands_, backend.allocate(static_cast<size_t>(table.rows() * n) * 2, "the embedding table"));
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<uint16_t> operands(static_cast<size_t>(std::min(kTableRows, table.rows()) * n));
  for (int64_t first = 0; first < table.rows(); first += kTableRows) {
    const int64_t rows = std::min(kTableRows, table.rows() - first);
    for (int64_t row = 0; row < rows; ++row) {
      numerics::decode_row(table.dtype, table.row(first + row), n, values.data());
      for (int64_t i = 0; i < n; ++i) operands[row * n + i] = numerics::bf16_operand(values[i]);
    }
    device_->upload(operands_.as<uint16_t>() + first * n, operands.data(),
                    static_cast<size_t>(rows * n) * sizeof(uint16_t));
  }
  return {};
}

void Embedding::run(ThreadPool& pool, const StepRows& step, float* h) {
  if (head_ != nullptr) return embed(pool, *head_, step.tokens, step.rows, operands_.as<uint16_t>(), h);
  if (device_ == nullptr) return embed(pool, *table_, step.tokens, step.rows, h);
  device_->embed(operands_.as<uint16_t>(), step.tokens, step.drawn, step.rows, static_cast<int>(table_->columns()), h);
}

}  // namespace eadem::ops
