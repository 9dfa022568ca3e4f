#include "kernels/cuda/linear/linear.h"

#include "core/check.h"
#include "kernels/cuda/linear/fma32.h"
#include "kernels/cuda/linear/plan.h"
#include "kernels/cuda/linear/stream.h"
#include "kernels/cuda/linear/wgmma.h"

namespace eadem::kernels::cuda {
namespace {

// Rows of one block: beyond, weights would be read again.
constexpr int kStreamRows = 64;

}  // namespace

size_t linear_scratch_bytes(const LinearShape& shape, int max_rows) {
  // Blocks of 64 rows take the most: the last one's scales are padded.
  return shape.numerics == Numerics::kInt8 ? quantised_bytes(shape, max_rows, 64) : 0;
}

void linear_planned(cudaStream_t stream, const LinearPlan& plan, const LinearCall& call, int rows, int processors,
                    void* scratch) {
  if (call.shape->numerics == Numerics::kFma32) return linear_fma32(stream, plan, call, rows, processors);
  QuantisedRows quantised;
  EADEM_CHECK(plan.own_rows == 0 || rows <= plan.own_rows);
  if (call.shape->numerics == Numerics::kInt8 && plan.own_rows == 0) {
    quantised = quantised_rows(*call.shape, rows, scratch);
    quantise(stream, *call.shape, call.x.operands, rows, plan.rows, quantised);
  }
  linear_stream(stream, plan, call, rows, processors, quantised);
}

void linear(cudaStream_t stream, const DeviceFacts& facts, const LinearCall& call, int rows, void* scratch) {
  if (linear_wgmma_serves(call) && linear_wgmma_suits(*call.shape, rows, facts.processors)) {
    return linear_wgmma(stream, call, rows, facts.processors);
  }
  linear_planned(stream, plan_linear(*call.shape, rows, facts.processors), call, rows, facts.processors, scratch);
}

bool fuses_swiglu(const DeviceFacts& facts, const LinearShape& shape, int rows) {
  return rows > kStreamRows ? linear_wgmma_gates(shape, rows, facts.processors) : linear_stream_gates(shape);
}

void linear_swiglu(cudaStream_t stream, const DeviceFacts& facts, const LinearCall& call, const SwigluCall& swiglu,
                   int rows) {
  if (rows > kStreamRows) return linear_wgmma_gated(stream, call, swiglu, rows, facts.processors);
  const LinearPlan plan = plan_gated(*call.shape, rows, facts.processors);
  linear_stream_gated(stream, plan, call, swiglu, rows, facts.processors);
}

}  // namespace eadem::kernels::cuda
