// Rotary embedding: frequencies and angles in double precision by our own functions, on the host only, rounded once to
// float32.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
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

// Angles of the positions that were asked for, each computed once: a row of 64 pairs takes 8 us of a core, eight
// thousand of them a quarter of what a GPU needs for the whole step.
class AngleTable {
 public:
  // rope: must outlive the table. context: positions of a sequence.
  static Result<AngleTable> create(const Rope& rope, int64_t context);
  // As Rope::angles. One thread at a time.
  void angles(int64_t position, float* cosine, float* sine);

 private:
  const Rope* rope_ = nullptr;
  std::vector<bool> known_;  // by position
  Buffer values_;            // float32 [positions][2][pairs]; takes memory where it was written
};

}  // namespace eadem::model
