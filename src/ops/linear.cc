#include "ops/linear.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include "numerics/formats.h"
#include "numerics/int8.h"
#include "numerics/operand.h"
#include "numerics/shards.h"
#include "ops/for_rows.h"

namespace eadem::ops {
namespace {

using kernels::LinearShape;
using numerics::Numerics;

// Rows of a weight matrix that one packing task handles.
constexpr int kPackRows = 64;

bool is_native(Numerics numerics, DType dtype) { return numerics == Numerics::kInt8 && numerics::int8_native(dtype); }

LinearShape shape_of(Numerics numerics, bool row_parallel, const TensorView& weight) {
  LinearShape shape;
  shape.numerics = numerics;
  shape.n = static_cast<int>(weight.rows());
  shape.k = static_cast<int>(weight.columns());
  shape.k_padded = numerics::padded_to_leaf(shape.k);
  shape.group = is_native(numerics, weight.dtype) ? numerics::kStoredGroup : numerics::quantised_group(shape.k);
  shape.minimum = is_native(numerics, weight.dtype) && weight.dtype == DType::kQ4_1;
  if (is_native(numerics, weight.dtype)) {
    shape.stored = weight.dtype == DType::kQ8_0 ? kernels::Int8Weights::kHalves : kernels::Int8Weights::kNibbles;
  }
  const int unit = numerics == Numerics::kInt8 ? std::max(numerics::kLeaf, shape.group) : numerics::kLeaf;
  if (row_parallel) shape.shards = numerics::shard_count(shape.k_padded, unit);
  return shape;
}

// One worker's memory while it packs rows.
struct PackScratch {
  explicit PackScratch(const LinearShape& shape)
      : values(shape.k_padded),
        operands(shape.k_padded),
        q(shape.k_padded),
        scale(shape.groups()),
        minimum(shape.groups()) {}
  std::vector<float> values;
  std::vector<uint16_t> operands;
  std::vector<int8_t> q;
  std::vector<float> scale, minimum;
};

// Packs the file's row `from` as row `to`. False where a value is not a number.
bool pack_row(const kernels::KernelSet& set, const LinearShape& shape, const TensorView& weight, int from, int to,
              PackScratch& scratch, std::byte* weights) {
  if (is_native(shape.numerics, weight.dtype)) {
    numerics::decode_row_int8(weight.dtype, weight.row(from), shape.k, scratch.q.data(), scratch.scale.data(),
                              scratch.minimum.data());
    set.pack_int8(shape, to, scratch.q.data(), scratch.scale.data(), shape.minimum ? scratch.minimum.data() : nullptr,
                  weights);
    return true;
  }
  numerics::decode_row(weight.dtype, weight.row(from), shape.k, scratch.values.data());
  for (int k = 0; k < shape.k; ++k) {
    if (numerics::is_nan(scratch.values[k])) return false;
    scratch.operands[k] = numerics::bf16_operand(scratch.values[k]);
  }
  if (shape.numerics != Numerics::kInt8) {
    set.pack_operands(shape, to, scratch.operands.data(), weights);
    return true;
  }
  for (int g = 0; g < shape.groups(); ++g) {
    scratch.scale[g] = numerics::int8_quantise(scratch.operands.data() + g * shape.group, shape.group,
                                               scratch.q.data() + g * shape.group);
  }
  set.pack_int8(shape, to, scratch.q.data(), scratch.scale.data(), nullptr, weights);
  return true;
}

}  // namespace

Result<void> Linear::pack_weights(std::span<const WeightPart> parts, ThreadPool& pool) {
  int first = 0;
  for (const WeightPart& part : parts) {
    const int rows = static_cast<int>(part.weight->rows());
    std::atomic<int> not_a_number{-1};
    pool.run((rows + kPackRows - 1) / kPackRows, [&](int task, int) {
      PackScratch scratch(shape_);
      for (int row = task * kPackRows; row < std::min(rows, (task + 1) * kPackRows); ++row) {
        const int from = part.order.empty() ? row : part.order[row];
        if (!pack_row(*set_, shape_, *part.weight, from, first + row, scratch, weights_.data())) not_a_number = from;
      }
    });
    if (not_a_number >= 0) {
      return Error{"tensor '" + part.weight->name + "': row " + std::to_string(not_a_number.load()) +
                   " holds a value that is not a number (NaN): the file is damaged, or its training diverged"};
    }
    first += rows;
  }
  return {};
}

Result<void> Linear::read_bias(std::span<const WeightPart> parts) {
  const bool any = std::any_of(parts.begin(), parts.end(), [](const WeightPart& part) { return part.bias != nullptr; });
  if (!any) return {};
  EADEM_ASSIGN_OR_RETURN(bias_, Buffer::allocate(static_cast<size_t>(shape_.n) * sizeof(float), "the biases"));
  int first = 0;
  for (const WeightPart& part : parts) {
    const int rows = static_cast<int>(part.weight->rows());
    if (part.bias != nullptr) {
      std::vector<float> values(rows);
      numerics::decode_row(part.bias->dtype, part.bias->data, rows, values.data());
      for (const float value : values) {
        if (!numerics::is_nan(value)) continue;
        return Error{"tensor '" + part.bias->name + "' holds a value that is not a number (NaN): the file is damaged"};
      }
      float* const bias = bias_.as<float>() + first;
      for (int row = 0; row < rows; ++row) bias[row] = values[part.order.empty() ? row : part.order[row]];
    }
    first += rows;
  }
  return {};
}

Result<Linear> Linear::pack_parts(const kernels::KernelSet& set, const LinearShape& shape,
                                  std::span<const WeightPart> parts, ThreadPool& pool) {
  Linear linear;
  linear.set_ = &set;
  linear.shape_ = shape;
  linear.shape_.n = 0;
  for (const WeightPart& part : parts) linear.shape_.n += static_cast<int>(part.weight->rows());
  EADEM_ASSIGN_OR_RETURN(linear.weights_, Buffer::allocate(set.linear_bytes(linear.shape_), "the weights"));
  EADEM_RETURN_IF_ERROR(linear.pack_weights(parts, pool));
  EADEM_RETURN_IF_ERROR(linear.read_bias(parts));
  return linear;
}

Result<Linear> Linear::pack(const kernels::KernelSet& set, Numerics numerics, bool row_parallel, const WeightPart& part,
                            ThreadPool& pool) {
  return pack_parts(set, shape_of(numerics, row_parallel, *part.weight), {&part, 1}, pool);
}

Result<std::vector<Linear>> Linear::pack_stack(const kernels::KernelSet& set, Numerics numerics,
                                               std::span<const WeightPart> parts, ThreadPool& pool) {
  std::vector<Linear> stack;
  for (size_t begin = 0, end; begin < parts.size(); begin = end) {
    const LinearShape shape = shape_of(numerics, false, *parts[begin].weight);
    for (end = begin + 1; end < parts.size(); ++end) {
      const LinearShape next = shape_of(numerics, false, *parts[end].weight);
      if (next.group != shape.group || next.minimum != shape.minimum || next.stored != shape.stored) break;
    }
    EADEM_ASSIGN_OR_RETURN(Linear linear, pack_parts(set, shape, parts.subspan(begin, end - begin), pool));
    stack.push_back(std::move(linear));
  }
  return stack;
}

bool Linear::tells_rows() const {
  return shape_.numerics != Numerics::kInt8 || shape_.stored != kernels::Int8Weights::kAny;
}

Result<void> Linear::move_to(kernels::Device& device) {
  for (Buffer* buffer : {&weights_, &bias_}) {
    if (buffer->size() == 0) continue;
    EADEM_ASSIGN_OR_RETURN(Buffer there, device.allocate(buffer->size(), "the weights"));
    device.upload(there.data(), buffer->data(), buffer->size());
    *buffer = std::move(there);
  }
  return {};
}

kernels::LinearCall Linear::call(const uint16_t* x, float* y, int64_t y_stride, bool add_to_y) const {
  kernels::LinearCall call;
  call.shape = &shape_;
  call.weights = weights_.data();
  call.bias = bias_.as<float>();
  call.y = y;
  call.y_stride = y_stride;
  call.add_to_y = add_to_y;
  call.x.operands = x;
  return call;
}

// Under int8, call.x becomes the quantised rows; they stay until the calling thread's next call.
void Linear::quantise(ThreadPool& pool, int rows, kernels::LinearCall& call) const {
  if (shape_.numerics != Numerics::kInt8) return;
  const uint16_t* const x = call.x.operands;
  // Kept by the calling thread from step to step: a step allocates nothing once they have grown.
  static thread_local std::vector<int8_t> q;
  static thread_local std::vector<float> scale;
  static thread_local std::vector<int32_t> sum;
  const size_t wanted = static_cast<size_t>(rows) * shape_.k_padded,
               groups = static_cast<size_t>(rows) * shape_.groups();
  if (q.size() < wanted) q.resize(wanted);
  if (scale.size() < groups) scale.resize(groups), sum.resize(groups);
  call.x = {x, q.data(), scale.data(), sum.data()};
  auto* const q_rows = q.data();
  auto* const scale_rows = scale.data();
  auto* const sum_rows = sum.data();
  for_rows(pool, rows, shape_.k_padded, [&](int row) {
    const int64_t at = int64_t{row} * shape_.k_padded, group = int64_t{row} * shape_.groups();
    set_->quantise(x + at, shape_.k_padded, shape_.group, q_rows + at, scale_rows + group, sum_rows + group);
  });
}

void Linear::run(ThreadPool& pool, const uint16_t* x, int rows, float* y, int64_t y_stride, bool add_to_y) const {
  run(pool, plan::plan_linear(shape_, rows, pool.threads()), x, rows, y, y_stride, add_to_y);
}

void Linear::run(ThreadPool& pool, const plan::LinearPlan& plan, const uint16_t* x, int rows, float* y,
                 int64_t y_stride, bool add_to_y) const {
  EADEM_CHECK(rows >= 1 && y_stride >= shape_.n);
  kernels::LinearCall call = this->call(x, y, y_stride, add_to_y);
  quantise(pool, rows, call);
  const auto tile = [&](int index, int) { set_->linear(call, plan::tile_at(shape_, rows, plan, index)); };
  pool.run(plan::tile_count(shape_, rows, plan), std::cref(tile));
}

// A kernel wants enough rows in every tile: the last one of a plan may be much shorter than the others.
bool Linear::fuses_swiglu(int rows, int threads) const {
  if (set_->fuses_swiglu == nullptr || bias_.size() != 0) return false;
  LinearShape gates = shape_;
  gates.n /= 2;
  return set_->fuses_swiglu(shape_, plan::shortest_rows(rows, plan::plan_linear(gates, rows, threads)));
}

// The plan is of the gates' panels: each brings its ups along.
void Linear::run_swiglu(ThreadPool& pool, const uint16_t* x, int rows, const kernels::SwigluCall& swiglu) const {
  LinearShape gates = shape_;
  gates.n /= 2;
  run_swiglu(pool, plan::plan_linear(gates, rows, pool.threads()), x, rows, swiglu);
}

void Linear::run_swiglu(ThreadPool& pool, const plan::LinearPlan& plan, const uint16_t* x, int rows,
                        const kernels::SwigluCall& swiglu) const {
  EADEM_CHECK(set_->fuses_swiglu(shape_, plan::shortest_rows(rows, plan)));
  kernels::LinearCall call = this->call(x, nullptr, 0, false);
  quantise(pool, rows, call);
  LinearShape gates = shape_;
  gates.n /= 2;
  const auto tile = [&](int index, int) { set_->linear_swiglu(call, swiglu, plan::tile_at(gates, rows, plan, index)); };
  pool.run(plan::tile_count(gates, rows, plan), std::cref(tile));
}

}  // namespace eadem::ops
