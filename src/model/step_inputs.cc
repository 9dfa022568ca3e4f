#include "model/step_inputs.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"

namespace eadem::model {
namespace {

constexpr size_t kAlignment = 256;
constexpr int64_t kLeastStride = 16;  // blocks

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t blocks_of(int64_t positions) { return (positions + numerics::kKvBlock - 1) / numerics::kKvBlock; }

// Few different ones, so that a graph of a step serves many steps.
int64_t stride_for(int64_t blocks) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(blocks, kLeastStride))));
}

}  // namespace

Result<StepInputs> StepInputs::create(const ops::Backend& backend, int max_rows, const Rope& rope, int64_t context) {
  StepInputs inputs;
  inputs.device_ = backend.device();
  inputs.pairs_ = rope.pairs();
  EADEM_ASSIGN_OR_RETURN(inputs.angles_, AngleTable::create(rope, context));
  const auto rows = static_cast<size_t>(max_rows);
  size_t bytes = 3 * aligned(rows * sizeof(int32_t)) + aligned(rows * sizeof(int64_t)) +
                 2 * aligned(rows * static_cast<size_t>(rope.pairs()) * sizeof(float));
  if (inputs.device_ != nullptr) {
    const auto blocks = static_cast<size_t>(stride_for(blocks_of(context)));
    bytes += aligned(rows * sizeof(kernels::DeviceDraw)) + aligned(rows * blocks * sizeof(int32_t));
    EADEM_ASSIGN_OR_RETURN(inputs.there_, inputs.device_->allocate(bytes, "a step's inputs"));
  }
  EADEM_ASSIGN_OR_RETURN(inputs.here_, Buffer::allocate(bytes, "a step's inputs"));
  return inputs;
}

size_t StepInputs::take(size_t bytes) {
  const size_t begin = end_;
  end_ += aligned(bytes);
  EADEM_CHECK(end_ <= here_.size());
  return begin;
}

void StepInputs::lay_out(const Batch& batch, size_t padded) {
  end_ = 0;
  const size_t more = padded - batch.rows.size(), outputs = batch.outputs.size() + more;
  tokens_ = take(padded * sizeof(int32_t));
  sequences_ = take(padded * sizeof(int32_t));
  positions_ = take(padded * sizeof(int64_t));
  cosine_ = take(padded * static_cast<size_t>(pairs_) * sizeof(float));
  sine_ = take(padded * static_cast<size_t>(pairs_) * sizeof(float));
  outputs_ = take(outputs * sizeof(int32_t));
  if (device_ == nullptr) return;
  draws_ = take(batch.draws.empty() ? 0 : outputs * sizeof(kernels::DeviceDraw));
  int64_t most = 0;
  for (const plan::RowRun& run : runs_) most = std::max(most, run.last_position + 1);
  table_stride_ = stride_for(blocks_of(most));
  tables_ = take((batch.tables.size() + more) * static_cast<size_t>(table_stride_) * sizeof(int32_t));
}

// The run of rows of each sequence.
void StepInputs::find_runs(const Batch& batch) {
  runs_.clear();
  row_count_ = static_cast<int>(batch.rows.size());
  for (int row = 0; row < row_count_; ++row) {
    const Row& r = batch.rows[row];
    if (runs_.empty() || runs_.back().sequence != r.sequence) {
      runs_.push_back({r.sequence, row, row, r.position, r.position});
    } else {
      EADEM_CHECK(r.position == runs_.back().last_position + 1);
    }
    runs_.back().row_end = row + 1;
    runs_.back().last_position = r.position;
  }
}

void StepInputs::fill(const Batch& batch, int padded) {
  find_runs(batch);
  lay_out(batch, static_cast<size_t>(padded));
  const int64_t pairs = pairs_;
  for (int row = 0; row < row_count_; ++row) {
    const Row& r = batch.rows[row];
    host<int32_t>(tokens_)[row] = r.drawn_by >= 0 ? kernels::token_of_draw(r.drawn_by) : r.token;
    host<int32_t>(sequences_)[row] = r.sequence;
    host<int64_t>(positions_)[row] = r.position;
    angles_.angles(r.position, host<float>(cosine_) + row * pairs, host<float>(sine_) + row * pairs);
  }
  std::copy(batch.outputs.begin(), batch.outputs.end(), host<int32_t>(outputs_));
  if (device_ == nullptr) return;
  std::copy(batch.draws.begin(), batch.draws.end(), host<kernels::DeviceDraw>(draws_));
  fill_tables(batch);
  fill_padding(batch, padded);
  device_->upload(there_.data(), here_.data(), end_);
}

void StepInputs::fill_padding(const Batch& batch, int padded) {
  const auto sequences = static_cast<int32_t>(batch.tables.size());
  for (int row = row_count_; row < padded; ++row) {
    host<int32_t>(tokens_)[row] = host<int32_t>(outputs_)[row] = -1;
    host<int64_t>(positions_)[row] = -1;
    const int32_t sequence = host<int32_t>(sequences_)[row] = sequences + (row - row_count_);
    host<kernels::DeviceDraw>(draws_)[row] = {};
    runs_.push_back({sequence, row, row + 1, -1, -1});
  }
  row_count_ = padded;
}

void StepInputs::fill_tables(const Batch& batch) {
  int32_t* const tables = host<int32_t>(tables_);
  for (const plan::RowRun& run : runs_) {
    std::copy_n(batch.tables[run.sequence], blocks_of(run.last_position + 1), tables + run.sequence * table_stride_);
  }
}

ops::StepRows StepInputs::rows() const {
  ops::StepRows step;
  step.rows = row_count_;
  step.tokens = at<int32_t>(tokens_), step.sequences = at<int32_t>(sequences_);
  step.positions = at<int64_t>(positions_);
  step.cosine = at<float>(cosine_), step.sine = at<float>(sine_);
  step.runs = runs_;
  return step;
}

}  // namespace eadem::model
