// The floating-point environment the contract asks of every thread that computes: round to nearest even, gradual
// underflow (no flush-to-zero, no denormals-are-zero). A caller's thread may come with other settings; they are put
// back afterwards.
#pragma once

#include <cstdint>

namespace eadem {

class FpEnvironment {
 public:
  FpEnvironment();   // sets the contract's environment on this thread
  ~FpEnvironment();  // restores what the thread had
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

  // True where this thread's control register is the contract's.
  static bool is_contract();

 private:
  uint64_t saved_;
};

}  // namespace eadem
