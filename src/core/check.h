// EADEM_CHECK: a broken invariant is a bug of ours, never a user's fault; it ends the process with its location.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace eadem {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "eadem: internal error: %s at %s:%d (please report this)\n", condition, file, line);
  std::abort();
}

}  // namespace eadem

#define EADEM_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::eadem::check_failed(#condition, __FILE__, __LINE__))
