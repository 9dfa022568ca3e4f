// Whether AMX tiles were used. Equal bits cannot show it, since other instructions walk the same trees, and a set's
// counter counts calls whatever they use; a kernel that fell back would pass every other test. The processor knows:
// XGETBV tells which of its states are not as at the start.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

namespace eadem::test {

// Whether this processor has XGETBV's second register (Intel SDM, volume 1, 13.1).
inline bool tells_tiles_in_use() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 2 & 1u) != 0;
}

// Whether this thread has configured tiles since it released them. The kernels leave them configured.
inline bool tiles_in_use() {
  constexpr unsigned kTileConfiguration = 1u << 17;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & kTileConfiguration) != 0;
}

inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

}  // namespace eadem::test
#endif
