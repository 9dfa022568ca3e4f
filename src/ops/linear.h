// A linear layer: packed weights, bias and the call. y[row][n] = tree over k of x[row][k] * w[n][k], + bias, (+ y).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"
#include "plan/linear_plan.h"

namespace eadem::ops {

// Rows of a weight matrix as a file stores them: [n, k] of any dtype.
struct WeightPart {
  const TensorView* weight = nullptr;
  const TensorView* bias = nullptr;  // [n], may be null
  std::vector<int32_t> order;        // output row i is the file's row order[i]; empty: as stored
};

class Linear {
 public:
  // Repacks `weight` for `set`. row_parallel: cut K into shards (attention output, MLP down). Errors: a weight or scale
  // that is not a number, not enough memory; the shape was checked by the caller.
  static Result<Linear> pack(const kernels::KernelSet& set, numerics::Numerics numerics, bool row_parallel,
                             const WeightPart& part, ThreadPool& pool);
  // Several matrices over the same input, stacked: one Linear where their formats allow, so at most parts.size() of
  // them.
  static Result<std::vector<Linear>> pack_stack(const kernels::KernelSet& set, numerics::Numerics numerics,
                                                std::span<const WeightPart> parts, ThreadPool& pool);

  const kernels::LinearShape& shape() const { return shape_; }
  size_t bytes() const { return weights_.size() + bias_.size(); }
  // Whether the packed weights tell what the file's were: those that were quantised when they were packed do not.
  bool tells_rows() const;
  // The operands [k_padded] that row n of the file's weights has, read from the packed ones, which are not moved.
  void row(int n, uint16_t* operands) const { set_->unpack_row(shape_, n, weights_.data(), operands); }
  // Weights and bias, which its packing set packed, go into a device's memory; it runs there alone from now on.
  Result<void> move_to(kernels::Device& device);
  // The call of this layer, without what int8 reads.
  kernels::LinearCall call(const uint16_t* x, float* y, int64_t y_stride, bool add_to_y) const;

  // x: operands [rows][k_padded of this shape]; y: [rows][y_stride], this layer's outputs from column 0.
  void run(ThreadPool& pool, const uint16_t* x, int rows, float* y, int64_t y_stride, bool add_to_y) const;
  // The same under a given plan (tests).
  void run(ThreadPool& pool, const plan::LinearPlan& plan, const uint16_t* x, int rows, float* y, int64_t y_stride,
           bool add_to_y) const;

  // Whether this layer, gates stacked on ups, gives the operands of SwiGLU for so many rows in one go.
  bool fuses_swiglu(int rows, int threads) const;
  bool fuses_swiglu(const kernels::Device& device, int rows) const {
    return bias_.size() == 0 && device.fuses_swiglu(shape_, rows);
  }
  // y: operands [rows][y_stride]; sets bad[row] where one is NaN.
  void run_swiglu(ThreadPool& pool, const uint16_t* x, int rows, const kernels::SwigluCall& swiglu) const;
  void run_swiglu(ThreadPool& pool, const plan::LinearPlan& plan, const uint16_t* x, int rows,
                  const kernels::SwigluCall& swiglu) const;

 private:
  static Result<Linear> pack_parts(const kernels::KernelSet& set, const kernels::LinearShape& shape,
                                   std::span<const WeightPart> parts, ThreadPool& pool);
  Result<void> pack_weights(std::span<const WeightPart> parts, ThreadPool& pool);
  void quantise(ThreadPool& pool, int rows, kernels::LinearCall& call) const;
  Result<void> read_bias(std::span<const WeightPart> parts);

  const kernels::KernelSet* set_ = nullptr;
  kernels::LinearShape shape_;
  Buffer weights_;
  Buffer bias_;  // float32 [n], or empty
};

}  // namespace eadem::ops
