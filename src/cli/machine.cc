#include "cli/machine.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace eadem::cli {
namespace {

// What kernel sets ask for, now or later; /proc/cpuinfo's names.
constexpr const char* kFeatures[] = {"avx2",     "fma",         "avx512f",     "avx512bw", "avx512dq",
                                     "avx512vl", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8",
                                     "asimd",    "asimddp",     "bf16",        "i8mm",     "sve"};

// The value of the first line of /proc/cpuinfo that starts with `key`, or nothing.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.rfind(key, 0) == 0 && colon != std::string::npos && colon + 2 <= line.size())
      return line.substr(colon + 2);
  }
  return {};
}

}  // namespace

nlohmann::ordered_json describe_machine() {
  std::string name = cpuinfo("model name");
  if (name.empty()) name = "unknown";
  const std::string flags = cpuinfo("flags");
  std::istringstream words(flags.empty() ? cpuinfo("Features") : flags);
  nlohmann::ordered_json features = nlohmann::ordered_json::array();
  for (std::string word; words >> word;) {
    for (const char* feature : kFeatures) {
      if (word == feature) features.push_back(word);
    }
  }
  const auto memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {
      {"cpu", name}, {"cores", std::thread::hardware_concurrency()}, {"features", features}, {"memory_bytes", memory}};
}

}  // namespace eadem::cli
