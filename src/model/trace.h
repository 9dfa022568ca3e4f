// A tap on every op's result, so that two runs that differ are compared row by row, layer by layer, op by op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/batch.h"

namespace eadem::model {

class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // `bytes`: the op's result for this row (float32 or operands, little-endian). layer: -1 for what is outside the
  // layers.
  virtual void record(const Batch& batch, int row, int layer, std::string_view op,
                      std::span<const std::byte> bytes) = 0;
};

}  // namespace eadem::model
