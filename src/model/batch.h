// A step's work: rows of any sequences at any positions. Nothing says whether a row is prefill or decode.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.h"

namespace eadem::model {

struct Row {
  int32_t sequence = 0;  // index into Batch::tables
  int32_t token = 0;
  int64_t position = 0;  // absolute; a row reads keys 0 ... position of its sequence, its own included
  // Of a model that draws: where it is not negative, the row's token is what that output of the forward before draws.
  int32_t drawn_by = -1;
};

// Filled by the scheduler. Rows of a sequence are adjacent, their positions ascending and consecutive; the blocks for
// all of them are in its table, and the keys and values of every earlier position are in those blocks already.
struct Batch {
  std::vector<Row> rows;
  std::vector<const int32_t*> tables;  // block ids of each sequence, in order of position
  std::vector<int32_t> outputs;        // ascending indices of the rows whose logits are wanted
  // Of a model that draws (Model::draws): one for each of outputs, or none.
  std::vector<kernels::DeviceDraw> draws;

  void clear() {
    rows.clear();
    tables.clear();
    outputs.clear();
    draws.clear();
  }
};

}  // namespace eadem::model
