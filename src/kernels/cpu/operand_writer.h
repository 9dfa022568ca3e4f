// How the vectorised sets round results to operands, with the one thing a caller must hear: whether a NaN was among
// them.
#pragma once

#include "kernels/cpu/vec.h"
#include "numerics/math.h"

namespace eadem::kernels::cpu {
namespace {

class OperandWriter {
 public:
  EADEM_LANE void put(uint16_t* y, Vec x) {
    bad_ = either(bad_, is_nan(x));
    store_operands(y, x);
  }
  EADEM_LANE void put(uint16_t* y, float x) {
    bad_tail_ |= numerics::is_nan(x);
    *y = numerics::bf16_operand(x);
  }
  void put(uint16_t* y, const float* x, int n) {
    int i = 0;
    for (; i + Vec::kWidth <= n; i += Vec::kWidth) put(y + i, Vec::load(x + i));
    for (; i < n; ++i) put(y + i, x[i]);
  }
  EADEM_LANE bool good() const { return !bad_tail_ && !any(bad_); }

 private:
  Mask bad_ = lt(Vec(0.0f), Vec(0.0f));
  bool bad_tail_ = false;
};

}  // namespace
}  // namespace eadem::kernels::cpu
