// Random numbers of resampling: Philox4x32-10 (numerics/rng.h) in counter mode, so that a result is a function of the
// data and the seed, on every machine.
#pragma once

#include <cstdint>

#include "numerics/rng.h"

namespace eadem::audit::statistics {

class Random {
 public:
  // Other streams of one seed are independent.
  explicit Random(uint64_t seed, uint32_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t word() {
    if (left_ == 0) {
      block_ = numerics::philox4x32_10(seed_, static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32),
                                       stream_, kPurpose);
      ++counter_;
      left_ = 4;
    }
    return block_.word[4 - left_--];
  }
  // In [0, 1), 53 bits.
  double uniform() { return static_cast<double>((uint64_t{word()} << 21) ^ (word() >> 11)) * 0x1p-53; }
  // In 0 ... n - 1, n >= 1, without bias: D. Lemire, "Fast random integer generation in an interval", ACM Transactions
  // on Modeling and Computer Simulation 29 (2019).
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{word()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t least = (0u - n) % n;
      while (static_cast<uint32_t>(product) < least) product = uint64_t{word()} * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }
  bool coin() { return (word() & 1) != 0; }

 private:
  static constexpr uint32_t kPurpose = 0x73746174;  // other than the sampler's purposes

  uint64_t seed_, counter_ = 0;
  uint32_t stream_;
  int left_ = 0;
  numerics::PhiloxBlock block_{};
};

}  // namespace eadem::audit::statistics
