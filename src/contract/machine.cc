#include "contract/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

namespace eadem::contract {
namespace {

constexpr std::string_view kFeatures[] = {"avx2",     "fma",         "f16c",        "avx512f",  "avx512bw", "avx512dq",
                                          "avx512vl", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd",
                                          "asimddp",  "bf16",        "i8mm",        "sve"};

// The value of the first line of /proc/cpuinfo that starts with `key`, or nothing.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return {};
}

std::string first_of(std::string_view key, std::string_view other) {
  std::string value = cpuinfo(key);
  if (value.empty()) value = cpuinfo(other);
  return value.empty() ? "unknown" : value;
}

std::vector<std::string> features() {
  std::istringstream words(first_of("flags", "Features"));
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    if (std::find(std::begin(kFeatures), std::end(kFeatures), word) != std::end(kFeatures)) found.push_back(word);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string libc() {
#if defined(__GLIBC__)
  return std::string("glibc ") + gnu_get_libc_version();
#else
  return "unknown";
#endif
}

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname name{};
  if (::uname(&name) == 0) {
    machine.architecture = name.machine;
    machine.os = name.sysname;
    machine.kernel = name.release;
  }
  machine.cpu_vendor = first_of("vendor_id", "CPU implementer");
  machine.cpu_model = first_of("model name", "CPU part");
  machine.features = features();
  machine.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  machine.memory_bytes =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  machine.libc = libc();
  return machine;
}

}  // namespace eadem::contract
