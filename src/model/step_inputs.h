// What a step reads and no op has computed: tokens, positions, angles, tables. One block of memory, filled on this
// machine; a device has a copy, which takes one upload.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/device.h"
#include "model/batch.h"
#include "model/rope.h"
#include "ops/backend.h"

namespace eadem::model {

class StepInputs {
 public:
  // max_rows: of a batch; rope: must outlive the inputs; context: positions of a sequence.
  static Result<StepInputs> create(const ops::Backend& backend, int max_rows, const Rope& rope, int64_t context);

  // Takes the batch in; everything below is of it from now on. padded: its rows, or more where every row is a run of
  // its own and an output with a draw: the rest then only fills a recording (Device::replay).
  void fill(const Batch& batch, int padded);

  // To where the ops run; `bad` and the layer's keys and values are still missing.
  ops::StepRows rows() const;
  const int32_t* outputs() const { return at<int32_t>(outputs_); }
  const kernels::DeviceDraw* draws() const { return at<kernels::DeviceDraw>(draws_); }
  const int32_t* tables() const { return at<int32_t>(tables_); }  // on a device: [sequences][table_stride]
  int64_t table_stride() const { return table_stride_; }

 private:
  // Places a section of the block.
  size_t take(size_t bytes);
  void find_runs(const Batch& batch);
  void lay_out(const Batch& batch, size_t padded);
  void fill_padding(const Batch& batch, int padded);
  void fill_tables(const Batch& batch);
  template <class T>
  const T* at(size_t offset) const {
    const Buffer& memory = device_ != nullptr ? there_ : here_;
    return reinterpret_cast<const T*>(memory.data() + offset);
  }
  template <class T>
  T* host(size_t offset) {
    return reinterpret_cast<T*>(here_.data() + offset);
  }

  kernels::Device* device_ = nullptr;
  int pairs_ = 0;
  AngleTable angles_;
  Buffer here_, there_;
  size_t end_ = 0, tokens_ = 0, sequences_ = 0, positions_ = 0, cosine_ = 0, sine_ = 0, outputs_ = 0, draws_ = 0,
         tables_ = 0;
  int64_t table_stride_ = 0;
  int row_count_ = 0;
  std::vector<plan::RowRun> runs_;
};

}  // namespace eadem::model
