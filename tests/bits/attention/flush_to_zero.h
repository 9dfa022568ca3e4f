// A thread whose control register flushes subnormals: what a kernel must not be able to see.
#pragma once

#include <cstdint>

namespace eadem::test {

// Sets what a careless library leaves behind: flush-to-zero and denormals-are-zero.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(saved_) | 0x8040u); }
  ~FlushToZero() { __builtin_ia32_ldmxcsr(static_cast<unsigned>(saved_)); }
#else
  FlushToZero() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ | (uint64_t{1} << 24)));
  }
  ~FlushToZero() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#endif
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace eadem::test
