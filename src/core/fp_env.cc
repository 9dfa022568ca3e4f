#include "core/fp_env.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace eadem {
namespace {

#if defined(__x86_64__)
// MXCSR: bit 15 FTZ, bits 13-14 rounding, bits 7-12 exception masks, bit 6 DAZ, bits 0-5 sticky flags.
constexpr uint64_t kControlBits = 0xffc0;
constexpr uint64_t kContract = 0x1f80;
uint64_t read_control() { return _mm_getcsr(); }
void write_control(uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
// FPCR: bit 24 FZ, bits 22-23 rounding, bit 19 FZ16, bits 0-2 the alternate handling of FEAT_AFP.
constexpr uint64_t kControlBits = 0x07c80007;
constexpr uint64_t kContract = 0;
uint64_t read_control() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_control(uint64_t value) { asm volatile("msr fpcr, %0" ::"r"(value)); }
#else
#error "add this architecture's floating-point control register"
#endif

}  // namespace

FpEnvironment::FpEnvironment() : saved_(read_control()) { write_control(kContract); }
FpEnvironment::~FpEnvironment() { write_control(saved_); }
bool FpEnvironment::is_contract() { return (read_control() & kControlBits) == kContract; }

}  // namespace eadem
