// Rotary embedding: frequencies and angles in double precision by our own functions, on the host only, rounded once to
// float32.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace eadem::model {

class Rope {
 public:
  explicit Rope(const RopeConfig& config);

  int pairs() const { return static_cast<int>(frequencies_.size()); }
  const std::vector<double>& frequencies() const { return frequencies_; }
  // cosine, sine: [pairs] of one absolute position.
  void angles(int64_t position, float* cosine, float* sine) const;

 private:
  std::vector<double> frequencies_;
  double magnitude_ = 1.0;
};

}  // namespace eadem::model
