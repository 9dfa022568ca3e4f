// The machine that the program runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace eadem::contract {

struct Machine {
  std::string architecture;           // uname's machine: x86_64, aarch64
  std::string cpu_vendor, cpu_model;  // as /proc/cpuinfo has them; "unknown" where it does not
  std::vector<std::string>
      features;   // of those that a kernel set asks for, now or later; /proc/cpuinfo's names, sorted
  int cores = 0;  // that this process may see
  uint64_t memory_bytes = 0;
  std::string os, kernel, libc;  // e.g. "Linux", "6.1.0-18-amd64", "glibc 2.36"
};

Machine this_machine();

}  // namespace eadem::contract
