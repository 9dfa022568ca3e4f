// Gives this process the fault that EADEM_FAULT names, before main. `none` is none: the same program without a fault.
// At the end a line on stderr tells how often it acted.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "support/faults/fault.h"

namespace eadem::faults {
namespace {

void tell() {
  const std::string_view name = installed() == nullptr ? "none" : installed()->name;
  std::fprintf(stderr, "fault %.*s acted %llu times\n", static_cast<int>(name.size()), name.data(),
               static_cast<unsigned long long>(fired()));
}

const bool ready = [] {
  const char* const name = std::getenv("EADEM_FAULT");
  Fault* const fault = name == nullptr ? nullptr : find(name);
  if (fault == nullptr && (name == nullptr || std::string_view(name) != "none")) {
    std::fputs("eadem-faulty: EADEM_FAULT must be none or one of:\n", stderr);
    for (const Fault* known : all()) {
      std::fprintf(stderr, "  %-18s%s\n", known->name.data(), known->says.data());
    }
    std::_Exit(2);
  }
  install(fault);
  return std::atexit(tell) == 0;
}();

}  // namespace
}  // namespace eadem::faults
